"""A process that has done its work, kept for a while for the next request."""

from __future__ import annotations

import atexit
import os
import threading

from .watched import WatchedProcess, clean_environment

_KEPT_SECONDS = 60.0
#: A larger one is not kept.
_MOST_RESIDENT_BYTES = 2 << 30


class IdleProcess:
    """At most one process, which ends when nobody has taken it for a minute. May be used by any
    thread; a fork has none.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: WatchedProcess | None = None
        self._made_for: object = None
        self._timer: threading.Timer | None = None
        atexit.register(self._end)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def take(self) -> WatchedProcess | None:
        """The process, which is the caller's now; None if there is none for this
        environment. It may have been killed meanwhile."""
        with self._lock:
            process, self._kept = self._kept, None
            if self._timer is not None:
                self._timer.cancel()
        if process is not None and self._made_for != clean_environment():
            process.end()
            return None
        return process

    def keep(self, process: WatchedProcess) -> bool:
        """Takes an idle process over; False if it is too large or there is one."""
        if process.resident_bytes > _MOST_RESIDENT_BYTES:
            return False
        with self._lock:
            if self._kept is not None:
                return False
            self._kept, self._made_for = process, clean_environment()
            self._timer = threading.Timer(_KEPT_SECONDS, self._end)
            self._timer.daemon = True
            self._timer.start()
        return True

    def _end(self) -> None:
        if process := self.take():
            process.end()

    def _forget(self) -> None:
        """In a fork: the process belongs to the one that was forked."""
        self._lock = threading.Lock()
        self._kept = self._timer = None

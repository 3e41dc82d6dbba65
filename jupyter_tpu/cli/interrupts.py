"""Ctrl-C as a flag to check, instead of an exception that may come between any two lines."""

from __future__ import annotations

import contextlib
import queue
import signal
from concurrent.futures import Future
from types import TracebackType
from typing import Any


class Interrupts:
    """Counts Ctrl-C while it is entered: nothing raises KeyboardInterrupt. On the main thread."""

    def __init__(self) -> None:
        self._count = 0
        self._news: queue.SimpleQueue[None] = (
            queue.SimpleQueue()
        )  # its put() may interrupt its get()

    def __enter__(self) -> Interrupts:
        self._before = signal.signal(signal.SIGINT, self._interrupted)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _interrupted(self, *_: object) -> None:
        self._count += 1
        self._news.put(None)

    @property
    def pending(self) -> bool:
        """Whether Ctrl-C came, and no one has taken it yet."""
        return self._count > 0

    def consume(self) -> bool:
        """Whether Ctrl-C came; each is told once."""
        if not self._count:
            return False
        self._count -= 1
        return True

    def wait(self, future: Future[Any]) -> bool:
        """Returns False when *future* is done, and True at a Ctrl-C before."""
        future.add_done_callback(lambda _: self._news.put(None))
        while not future.done():
            if self.consume():
                return True
            with contextlib.suppress(queue.Empty):
                self._news.get(timeout=0.5)  # a signal just before it waits does not interrupt it
        return False

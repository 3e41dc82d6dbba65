"""Warm kernels: one per environment that somebody wants one of, ready to be the next kernel there.

A warm kernel has imported ipykernel (and what was asked for besides) and has done nothing else; its
keeper waits beside it. A start then only has to say which kernel it is. It is wanted by a client's
connection, and for as long as that stays: nobody's connection, nobody's warm kernel. One whose
environment has changed since, or that holds a chip, is of no use and is ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from typing import Any, Dict, Hashable, List, Optional

from ..keeper.ipython_kernel import installed
from .process_env import kernel_environment

#: Seconds between two looks, and after a start before the next warm kernel may take its place: that
#: kernel's first cell comes first.
LOOK, AFTER_START = 1.0, 2.0
#: Seconds after which one that failed is tried again.
AFTER_FAILURE = 300.0
#: Variables that only have an effect when a process starts.
_AT_START = ("LD_", "PYTHON", "MALLOC_", "GLIBC_", "LC_", "LANG", "TZ")
#: Differs at each start, and nothing that is imported reads it.
_OWN = "JPY_SESSION_NAME"
_DEVICES = ("/dev/accel", "/dev/vfio/")


class WarmKernel:
    """One of them, from its start; *wish* is what :meth:`WarmKernels.want` was told."""

    def __init__(self, wish: Dict[str, Any]) -> None:
        self.wish = wish
        self.keeper: Optional[asyncio.subprocess.Process] = None
        self.pid = 0
        self.state = "starting"  # "ready", "failed"
        self.problem = ""
        self._folders: List[str] = []
        self._installed = 0
        self._since = time.monotonic()

    async def start(self, sources: str) -> None:
        """Returns when it is ready, or has failed."""
        python = self.wish["python"]
        order = {"warm": self.wish["imports"], "python": python, "env": self.wish["env"]}
        try:
            self.keeper = await asyncio.create_subprocess_exec(
                python,
                sources,
                "keeper",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env=kernel_environment(python),
                cwd="/",
                start_new_session=True,
            )
            assert self.keeper.stdin is not None
            assert self.keeper.stdout is not None
            self.keeper.stdin.write(json.dumps({**order, "cwd": "/"}).encode() + b"\n")
            who = json.loads(await self.keeper.stdout.readline() or b"{}")
            self.pid = int(who.get("pid", 0))
            said = json.loads(await self.keeper.stdout.readline() or b"{}")
            self._folders, self._installed = said["folders"], said["installed"]
            self.problem = said["problem"] or (
                "importing these modules takes the chips" if _holds_chip(self.pid) else ""
            )
        except (OSError, ValueError, KeyError) as error:
            self.problem = "it could not be started: %r" % error
        self.state = "failed" if self.problem else "ready"
        if self.problem:
            self.kill()

    @property
    def is_stale(self) -> bool:
        """The environment is not the one any more from which it has imported, or it has ended, or
        what it failed for may be over."""
        if self.state == "starting":
            return False
        if self._folders and installed(self._folders) != self._installed:
            return True
        if self.state == "failed":
            return time.monotonic() > self._since + AFTER_FAILURE
        gone = self.keeper is None or self.keeper.returncode is not None
        return gone or (os.path.isdir("/proc") and not _resident(self.pid))

    def can_be(self, env: Dict[str, str]) -> bool:
        """Whether a kernel with these variables would be the same if it were started cold."""
        had = self.wish["env"]
        other = {name for name in env if env[name] != had.get(name)} - {_OWN}
        # What was imported may have read them already; ipykernel reads its own later.
        return not other if self.wish["imports"] else not any(map(_is_read_at_start, other))

    @property
    def memory(self) -> int:
        """What it costs, bytes."""
        keeper = self.keeper.pid if self.keeper is not None else 0
        return sum(map(_resident, filter(None, (keeper, self.pid))))

    def kill(self) -> None:
        """Ends both at once; neither has anything to save."""
        for pid in (self.pid, self.keeper.pid if self.keeper is not None else 0):
            if pid and self.keeper is not None and self.keeper.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


class WarmKernels:
    """All of one daemon.

    Parameters
    ----------
    sources: what Python runs to be a keeper.
    """

    def __init__(self, sources: str) -> None:
        self._sources = sources
        self._wanted: Dict[Hashable, List[Dict[str, Any]]] = {}  # by who wants them
        self._there: Dict[str, WarmKernel] = {}  # by their Python
        self._taken: Dict[str, float] = {}  # when the last one was
        self._starts: "set[asyncio.Future[None]]" = set()
        self._look = asyncio.Event()

    def want(self, who: Hashable, wishes: List[Dict[str, Any]]) -> None:
        """*who* wants these and no others: ``python``, ``imports`` (names), ``env``."""
        self._wanted[who] = wishes
        self._look.set()

    def forget(self, who: Hashable) -> None:
        """*who* is gone, and what only it wanted is not wanted any more."""
        if self._wanted.pop(who, None):
            self._look.set()

    def statuses(self) -> List[Dict[str, Any]]:
        return [
            {
                "python": python,
                "state": warm.state,
                "problem": warm.problem,
                "memory": 0 if warm.state == "failed" else warm.memory,
                "pid": warm.pid,
            }
            for python, warm in self._there.items()
        ]

    def take(self, python: str, env: Dict[str, str]) -> "Optional[asyncio.subprocess.Process]":
        """The keeper of a warm kernel, which is the caller's from now on; None: there is none."""
        warm = self._there.get(python)
        self._taken[python] = time.monotonic()
        if warm is None or warm.state != "ready" or warm.is_stale or not warm.can_be(env):
            self._look.set()
            return None
        del self._there[python]
        return warm.keeper

    async def run(self) -> None:
        """Keeps what is there as it is wanted, until it is cancelled; then ends all."""
        try:
            while True:
                self._look.clear()
                self._tend()
                with contextlib.suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(self._look.wait(), LOOK if self._wanted else None)
        finally:
            for warm in self._there.values():
                warm.kill()
            for start in self._starts:
                start.cancel()
            await asyncio.gather(*self._starts, return_exceptions=True)
            for warm in self._there.values():
                warm.kill()  # whose start was under way
                if warm.keeper is not None:
                    await warm.keeper.wait()

    def _tend(self) -> None:
        wanted = {wish["python"]: wish for wishes in self._wanted.values() for wish in wishes}
        for python, warm in list(self._there.items()):
            if wanted.get(python) != warm.wish or warm.is_stale:
                if warm.state == "starting":
                    continue  # it is ended when it can be
                warm.kill()
                del self._there[python]
        now = time.monotonic()
        for python, wish in wanted.items():
            if python not in self._there and now > self._taken.get(python, -1e9) + AFTER_START:
                warm = self._there[python] = WarmKernel(wish)
                start = asyncio.ensure_future(warm.start(self._sources))
                self._starts.add(start)
                start.add_done_callback(self._started)

    def _started(self, start: "asyncio.Future[None]") -> None:
        self._starts.discard(start)
        self._look.set()


def _is_read_at_start(name: str) -> bool:
    return name.startswith(_AT_START)


def _holds_chip(pid: int) -> bool:
    """Whether a process has a TPU's device open."""
    folder = "/proc/%d/fd" % pid
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                if os.readlink(os.path.join(folder, name)).startswith(_DEVICES):
                    return True
    return False


def _resident(pid: int) -> int:
    try:
        with open("/proc/%d/statm" % pid) as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0

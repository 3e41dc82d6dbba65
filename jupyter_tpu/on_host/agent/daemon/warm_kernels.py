"""Warm kernels: one per environment that a client asks for, ready to become the next kernel there.

A warm kernel has imported ipykernel (and the modules asked for) and has done nothing else; its
keeper waits next to it. To start, it is only told which kernel it is. It is kept for as long as the
client that asked for it is connected. It is ended if its environment has changed since, or if it
holds a chip.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from typing import Any, Dict, Hashable, List, Literal, Optional, Tuple

from ..keeper.ipython_kernel import installed
from ..protocol.processes import signal_process, start_time
from ..protocol.records import WarmKernelReport
from ..protocol.timeouts import cancel_all, is_set_within
from .keeper_process import KeeperProcess
from .keeper_starter import KERNEL, KeeperStarter

#: Seconds between two checks, and after a start before the next warm kernel may replace it: the
#: started kernel's first cell comes first.
CHECK_INTERVAL, AFTER_START = 1.0, 2.0
#: Seconds after which a failed one is started again.
AFTER_FAILURE = 300.0
#: Variables that only have an effect when a process starts.
_AT_START = ("LD_", "PYTHON", "MALLOC_", "GLIBC_", "LC_", "LANG", "TZ")
#: They are for one start, and no imported module reads them.
_PER_START = {
    "JPY_SESSION_NAME",
    "JUPYTER_TPU_NAME",
    "JUPYTER_TPU_SESSIONS",
    "JUPYTER_TPU_SESSION_KEY",
    "JUPYTER_TPU_WORKER",
    "JUPYTER_TPU_ZONE",
}
_DEVICES = ("/dev/accel", "/dev/vfio/")
#: The Python, and whether it is a pod kernel.
_Key = Tuple[str, bool]


class WarmKernelProcess:
    """One warm kernel; *request* is one of those of :meth:`WarmKernels.request`."""

    def __init__(self, request: Dict[str, Any]) -> None:
        self.request = request
        self.keeper: Optional[KeeperProcess] = None
        self.pid = 0
        self._kernel_started = ""
        self.state: Literal["starting", "ready", "failed"] = "starting"
        self.problem = ""
        self._folders: List[str] = []
        self._installed = 0
        self._since = time.monotonic()

    async def start(self, starter: KeeperStarter) -> None:
        """Returns when it is ready, or has failed."""
        python = self.request["python"]
        spec = {"warm": self.request["imports"], "python": python, "env": self.request["env"]}
        if self.request["pod"]:
            member = {"python": python, "env": self.request["env"], "cwd": "/", "mirrored": False}
            spec["pod"] = {**self.request["pod"], "member": member}
        try:
            self.keeper = await KeeperProcess.start(starter, KERNEL)
            self.keeper.tell({**spec, "cwd": "/"})
            started = await self.keeper.hear()
            self.pid = int(started.get("pid", 0))
            self._kernel_started = start_time(self.pid) if self.pid else ""
            ready = await self.keeper.hear()
            self._folders, self._installed = ready["folders"], ready["installed"]
            self.problem = ready["problem"] or (
                "importing these modules uses the chips" if _holds_chip(self.pid) else ""
            )
        except (OSError, ValueError, KeyError) as error:
            self.problem = "it could not be started: %r" % error
        self.state = "failed" if self.problem else "ready"
        if self.problem:
            self.kill()

    @property
    def is_stale(self) -> bool:
        """Whether it has to be replaced: its environment has changed since its imports, it has
        ended, or it failed some time ago."""
        if self.state == "starting":
            return False
        if self._folders and installed(self._folders) != self._installed:
            return True
        if self.state == "failed":
            return time.monotonic() > self._since + AFTER_FAILURE
        gone = self.keeper is None or self.keeper.ended
        return gone or (os.path.isdir("/proc") and not _resident(self.pid))

    def fits(self, env: Dict[str, str]) -> bool:
        """Whether a cold start with these variables would give the same kernel."""
        had = self.request["env"]
        other = {name for name in env if env[name] != had.get(name)} - _PER_START
        # Imported modules may have read them already; ipykernel reads its own later.
        return not other if self.request["imports"] else not any(map(_is_read_at_start, other))

    @property
    def memory(self) -> int:
        """The memory that it uses, bytes."""
        keeper = self.keeper.pid if self.keeper is not None else 0
        return sum(map(_resident, filter(None, (keeper, self.pid))))

    def kill(self) -> None:
        """Kills the kernel and its keeper; they have nothing to save."""
        signal_process(self.pid, self._kernel_started, signal.SIGKILL)
        if self.keeper is not None:
            self.keeper.kill()


class WarmKernels:
    """All warm kernels of a daemon.

    Parameters
    ----------
    starter: starts keepers.
    """

    def __init__(self, starter: KeeperStarter) -> None:
        self._starter = starter
        self._requests: Dict[Hashable, List[Dict[str, Any]]] = {}  # by client
        self._kernels: Dict[_Key, WarmKernelProcess] = {}
        self._claimed: Dict[_Key, float] = {}  # when the last one was
        self._starts: "set[asyncio.Future[None]]" = set()
        self._changed = asyncio.Event()

    def request(self, who: Hashable, requested: List[Dict[str, Any]]) -> None:
        """The client *who* wants these and no others: ``python``, ``imports`` (names), ``env``, and
        ``pod``, with which it is a pod kernel.
        """
        self._requests[who] = requested
        self._changed.set()

    def forget(self, who: Hashable) -> None:
        """The client *who* is gone, and with it its requests."""
        if self._requests.pop(who, None):
            self._changed.set()

    def statuses(self) -> List[WarmKernelReport]:
        return [
            {
                "python": python,
                "state": warm.state,
                "problem": warm.problem,
                # In whole MiB: a difference of a few bytes is no news.
                "memory": 0 if warm.state == "failed" else warm.memory >> 20 << 20,
                "pid": warm.pid,
                "pod": pod,
            }
            for (python, pod), warm in self._kernels.items()
        ]

    def claim(
        self, python: str, env: Dict[str, str], *, pod: bool = False
    ) -> Optional[KeeperProcess]:
        """The keeper of a warm kernel, which now belongs to the caller; None if there is none."""
        key = python, pod
        warm = self._kernels.get(key)
        self._claimed[key] = time.monotonic()
        if warm is None or warm.state != "ready" or warm.is_stale or not warm.fits(env):
            self._changed.set()
            return None
        del self._kernels[key]
        return warm.keeper

    async def run(self) -> None:
        """Keeps the requested kernels warm until it is cancelled; then ends them all."""
        try:
            while True:
                self._changed.clear()
                self._reconcile()
                await is_set_within(self._changed, CHECK_INTERVAL if self._requests else None)
        finally:
            for warm in self._kernels.values():
                warm.kill()
            await cancel_all(self._starts)
            for warm in self._kernels.values():
                warm.kill()  # those that were still starting

    def _reconcile(self) -> None:
        desired = {
            _key_of(request): request
            for requests in self._requests.values()
            for request in requests
        }
        for key, warm in list(self._kernels.items()):
            if desired.get(key) != warm.request or warm.is_stale:
                if warm.state == "starting":
                    continue  # it is ended later
                warm.kill()
                del self._kernels[key]
        now = time.monotonic()
        for key, request in desired.items():
            if key not in self._kernels and now > self._claimed.get(key, -1e9) + AFTER_START:
                warm = self._kernels[key] = WarmKernelProcess(request)
                start = asyncio.ensure_future(warm.start(self._starter))
                self._starts.add(start)
                start.add_done_callback(self._started)

    def _started(self, start: "asyncio.Future[None]") -> None:
        self._starts.discard(start)
        self._changed.set()


def _key_of(request: Dict[str, Any]) -> _Key:
    return request["python"], bool(request["pod"])


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

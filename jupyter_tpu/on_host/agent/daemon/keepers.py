"""The daemon's view of the keepers: it starts, lists, queries and ends them.

A keeper is found by its folder alone, so a keeper that another daemon started, of this version or
another, works as well.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import shutil
import signal
import tempfile
import time
from typing import Any, Dict, List, Optional

from ..keeper.exit_cause import ASKED, DISK_SPACE, forget_ending, read_ending
from ..keeper.owned_process import kill_leftovers
from ..protocol import frames
from ..protocol.chips import chip_devices, holders
from ..protocol.paths import keeper_socket, kernel_folder, private_folder
from ..protocol.peer import peer_process
from ..protocol.process_tree import descendants
from ..protocol.processes import is_alive, signal_process, start_time
from ..protocol.records import KernelReport
from ..protocol.requests import KernelFate
from ..protocol.timeouts import cancel_all, with_timeout
from .keeper_process import KeeperProcess
from .keeper_starter import KERNEL, KeeperStarter
from .single_process import last_line
from .warm_kernels import WarmKernels

#: Seconds for a keeper to start listening, and to answer a query or to end.
START_SECONDS = 30.0
ANSWER_SECONDS = 10.0
#: Seconds for a killed one to be gone.
KILLED_SECONDS = 5.0
#: Bytes without which nothing starts.
NEEDED_DISK_BYTES = 64 << 10
#: The last messages of ended kernels are kept up to so many bytes, and of so many kernels.
DEAD_BYTES, DEAD_KERNELS = 2 << 30, 32
#: What to do on a host on which no process can be started.
NO_PROCESS = "End programs on the host, or restart the TPU."


class StartError(Exception):
    """A keeper could not be started; the message says why, and *hint* what to do where the
    environment is not the reason.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class ChipsTaken(Exception):
    """Another kernel has booked the chips at the same time."""


class KeeperSilent(Exception):
    """The keeper with this *pid* is there, but does not answer. Nothing is known of its kernel."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self.pid = pid


class Keepers:
    """All keepers below one folder.

    Parameters
    ----------
    run: the folder.
    starter: starts keepers.
    warm: the warm kernels, which are started already.
    """

    def __init__(
        self, run: str, starter: KeeperStarter, warm: Optional[WarmKernels] = None
    ) -> None:
        self.run = run
        self._starter = starter
        self._warm = warm or WarmKernels(starter)
        self._children: Dict[str, KeeperProcess] = {}  # our own, by folder
        self._latest: Dict[str, KernelReport] = {}  # the latest status, by folder
        self._announced: Dict[str, str] = {}  # source -> what it announces, "" for nothing
        self._tasks: "set[asyncio.Future[Any]]" = set()

    @property
    def folders(self) -> List[str]:
        """The folders of all kernels, also of those to be cleaned up."""
        names = sorted(os.listdir(self.run))
        return [os.path.join(self.run, name) for name in names if name.startswith("k-")]

    async def statuses(self) -> List[KernelReport]:
        """The status of each kernel; the latest known one of a keeper that does not answer."""
        folders = self.folders
        answers = await asyncio.gather(*map(self._latest_status, folders))
        statuses = {
            folder: answer for folder, answer in zip(folders, answers) if answer is not None
        }
        self._latest = statuses
        return list(statuses.values())

    async def _latest_status(self, folder: str) -> Optional[KernelReport]:
        try:
            return await self._ask(folder, {"ask": "status"})
        except KeeperSilent:
            return self._latest.get(folder)

    async def status(self, kernel_id: str) -> Optional[KernelReport]:
        """The status of a kernel; None if there is none. Raises KeeperSilent."""
        return await self._ask(kernel_folder(self.run, kernel_id), {"ask": "status"})

    async def fate(self, kernel_id: str) -> KernelFate:
        """What became of a kernel: ``known`` (whether it, or its keeper, is there) and ``ending``
        (see `exit_cause`; None if there is no record).
        """
        try:
            known = await self.status(kernel_id) is not None
        except KeeperSilent:
            known = True
        folder = kernel_folder(self.run, kernel_id)
        return {"known": known, "ending": None if known else read_ending(folder)}

    async def free_disk(self) -> None:
        """Deletes the last messages of ended kernels if they are too many, the oldest first."""
        dead = [status for status in await self.statuses() if status["state"] == "dead"]
        dead.sort(key=lambda status: str(status.get("died", "")), reverse=True)
        size = 0
        for number, status in enumerate(dead):
            size += status["waiting"]
            if size > DEAD_BYTES or number >= DEAD_KERNELS:
                with contextlib.suppress(KeeperSilent):
                    await self.end(status["id"], now=True, why=DISK_SPACE)

    async def announce(self, source: str, kind: str) -> None:
        """Tells all keepers what a *source* announces to this host: Google (see `Announced`), or
        the guard, whose *kind* is what a running cell shows; "": nothing any more.
        """
        self._announced[source] = kind
        told = map(self._tell_announced, self.folders)
        await asyncio.gather(*told, return_exceptions=True)  # some may be silent

    async def _tell_announced(self, folder: str) -> None:
        kinds = [kind for kind in self._announced.values() if kind]
        with contextlib.suppress(KeeperSilent):
            await self._ask(folder, {"ask": "announce", "kind": kinds[-1] if kinds else ""})

    async def ask_session(self, kernel_id: str, request: Dict[str, Any]) -> Optional[KernelReport]:
        """Passes a request about its session to a kernel; the status of before it is answered, None
        if there is none. Raises KeeperSilent.
        """
        query = {"ask": "session", "request": request}
        return await self._ask(kernel_folder(self.run, kernel_id), query)

    async def start(self, kernel_id: str, spec: Dict[str, Any]) -> Dict[str, Any]:
        """Starts a keeper, or uses a warm one.

        Returns ``pid`` (the kernel's) and ``keeper``; raises StartError, ChipsTaken, and OSError if
        the disk is full.
        """
        folder = kernel_folder(self.run, kernel_id)
        forget_ending(folder)
        pod = spec.get("pod") or {}
        # A warm pod kernel has the hosts of this TPU only.
        one = not pod.get("slices")
        warm = self._warm.claim(spec["python"], spec["env"], pod=bool(pod)) if one else None
        if warm is not None:
            with contextlib.suppress(StartError):  # then start a cold one
                return await self._begin(private_folder(folder), warm, spec)
        try:
            keeper = await KeeperProcess.start(self._starter, KERNEL)
        except OSError as error:
            raise StartError(
                "its keeper could not be started: %s" % error,
                NO_PROCESS,
            ) from error
        return await self._begin(private_folder(folder), keeper, spec)

    async def _begin(
        self, folder: str, keeper: KeeperProcess, spec: Dict[str, Any]
    ) -> Dict[str, Any]:
        """Sends a keeper its spec, and returns its answer."""
        self._children[folder] = keeper
        try:
            # Not as arguments, because the list of processes must not show the key.
            answer = await keeper.ask({**spec, "folder": folder}, START_SECONDS)
        finally:
            task = asyncio.ensure_future(self._wait_for(folder, keeper))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        if "pid" in answer:
            if any(self._announced.values()):
                await self._tell_announced(folder)
            return answer
        problem = answer.get("problem") or last_line(os.path.join(folder, "keeper.log"))
        keeper.kill()
        try:
            if answer.get("booked"):
                raise ChipsTaken
            require_free_disk(self.run)
        finally:
            _clean_up(folder)
        raise StartError(problem or "its keeper ended without a message")

    async def _wait_for(self, folder: str, keeper: KeeperProcess) -> None:
        await keeper.wait()
        if self._children.get(folder) is keeper:
            del self._children[folder]
            with contextlib.suppress(KeeperSilent):
                await self._ask(folder, {"ask": "status"})  # cleans up after a killed one

    def key(self, kernel_id: str) -> Optional[str]:
        """The key that signs the messages of a kernel; None if there is none."""
        path = os.path.join(kernel_folder(self.run, kernel_id), "connection.json")
        try:
            with open(path) as file:
                return str(json.load(file)["key"])
        except (OSError, ValueError, KeyError):
            return None

    async def end(
        self, kernel_id: str, now: bool, secret: Optional[str] = None, why: str = ASKED
    ) -> bool:
        """Ends a kernel and waits until nothing of it is left; False: there was none.

        With a *secret*, only the holder of the lease ends it; for others it returns False. Raises
        KeeperSilent; but *now* without a secret ends a silent keeper, too.
        """
        folder = kernel_folder(self.run, kernel_id)
        try:
            return await self._end(kernel_id, folder, now, secret, why)
        except KeeperSilent as silent:
            started = start_time(silent.pid) if silent.pid else ""
            if not now or secret is not None or not started:
                raise
            await kill_process(silent.pid, started)
            _clean_up(folder)
            return True

    async def _end(
        self, kernel_id: str, folder: str, now: bool, secret: Optional[str], why: str
    ) -> bool:
        before = await self.status(kernel_id) if chip_devices() else None
        mine = set(descendants(before["keeper"])) if before is not None else set()
        query: Dict[str, Any] = {"ask": "end", "now": now, "why": why}
        if secret is not None:
            query["secret"] = secret
        status = await self._ask(folder, query, until_end=True)
        if status is None or status.get("fenced"):
            return False
        deadline = time.monotonic() + ANSWER_SECONDS
        started = status["keeper_started"]
        while started and start_time(status["keeper"]) == started:
            if time.monotonic() > deadline:
                await kill_process(status["keeper"], started)
                _clean_up(folder)
                break
            await asyncio.sleep(0.01)
        # A killed process may take a while to release its chips.
        while mine and any(holder["pid"] in mine for holder in holders()):
            if time.monotonic() > deadline:
                break
            await asyncio.sleep(0.05)
        return True

    async def _ask(
        self, folder: str, query: Dict[str, Any], until_end: bool = False
    ) -> Optional[KernelReport]:
        """A keeper's answer; None if there is no keeper, and then its folder is cleaned up.

        *until_end*: waits for the end of the connection, when all that the keeper owns has ended.
        Raises KeeperSilent.
        """
        try:
            reader, writer = await asyncio.open_unix_connection(os.path.join(folder, "keeper.sock"))
        except OSError as error:
            absent = error.errno == errno.ENOENT and not _is_starting(folder)
            if (absent or error.errno == errno.ECONNREFUSED) and folder not in self._children:
                _clean_up(folder)
            return None
        try:
            answer = await with_timeout(_answer(reader, writer, query), ANSWER_SECONDS)
            if answer is not None:
                answer["keeper_started"] = start_time(answer["keeper"])
            if until_end:
                with contextlib.suppress(asyncio.TimeoutError):
                    await with_timeout(_until_closed(reader), ANSWER_SECONDS)
            return answer
        except asyncio.TimeoutError:
            raise KeeperSilent(peer_process(writer.get_extra_info("socket"))) from None
        except (OSError, frames.ProtocolError):
            return None
        finally:
            writer.close()

    async def close(self) -> None:
        """Stops watching them; they continue."""
        await cancel_all(self._tasks)

    def socket_path(self, kernel_id: str) -> str:
        """The path of the socket of a kernel's keeper."""
        return keeper_socket(self.run, kernel_id)


async def _answer(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, query: Dict[str, Any]
) -> Optional[KernelReport]:
    writer.write(frames.encode(frames.Hello(query)))
    decoder, answer = frames.Decoder(), None
    while answer is None:
        data = await reader.read(frames.PIECE_BYTES)
        if not data:
            break
        for frame in decoder.feed(data):
            if isinstance(frame, frames.Notice):
                answer = frame.fields.get("answer", answer)
    return answer


async def _until_closed(reader: asyncio.StreamReader) -> None:
    with contextlib.suppress(OSError):
        while await reader.read(frames.PIECE_BYTES):
            pass


def _is_starting(folder: str) -> bool:
    """Whether a keeper (of this daemon, or another) may be starting there."""
    try:
        return time.time() - os.stat(folder).st_mtime < START_SECONDS
    except OSError:
        return False


async def kill_process(pid: int, started: str) -> None:
    """Kills the process that started at *started*; waits some seconds at most for its end."""
    signal_process(pid, started, signal.SIGKILL)
    for _ in range(int(KILLED_SECONDS / 0.01)):
        if not is_alive(pid, started):
            break
        await asyncio.sleep(0.01)


def _clean_up(folder: str) -> None:
    """Removes what a killed keeper has left: its kernel's processes, its files."""
    kill_leftovers(folder)
    shutil.rmtree(folder, ignore_errors=True)


def require_free_disk(folder: str) -> None:
    """Raises OSError if the disk of *folder* is full: why a process that keeps its files there has
    ended, and maybe could not say.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(NEEDED_DISK_BYTES))
        file.flush()

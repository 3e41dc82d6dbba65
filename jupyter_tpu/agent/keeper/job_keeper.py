"""The keeper of a job: the process next to one command that owns it and its output.

It runs in a session of its own, and needs neither the link nor the daemon nor a Jupyter server to
continue. The output goes to disk line by line. When the command has ended, its end is stored, and
the keeper ends (see `job_log`). Standard library only.

It listens on a unix socket. A query is a line of JSON, and so is the answer, the job's status::

    {"ask": "status"}
    {"ask": "log", "after": N, "partial": {…}, "seconds": S}   answers when there is output after
                                                               line N, or the job has ended
    {"ask": "stop", "patience": S}   SIGTERM to the process group, and SIGKILL after S seconds
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from typing import Any, Dict, Optional

from ..protocol.messages import now
from ..protocol.paths import boot, job_socket
from ..protocol.peer import peer_user
from ..protocol.processes import start_time
from ..protocol.timeouts import exit_within, is_set_within, with_timeout
from .exit_cause import HostWatch
from .job_log import ENDED, FINAL, LIMIT, RUNNING, STOPPING, JobLogWriter, write_state
from .owned_process import JobProcess, become_subreaper
from .start_report import report_start

#: Bytes of output that wait in memory on a full disk before the command is paused.
WAITING = 1 << 20
#: Bytes read from a pipe at a time, and how often; then others get their turn.
PIECE = 1 << 16
#: Bytes of the longest query and answer: both have the two lines that are not complete yet.
LONGEST_QUERY = 2 << 20
#: Seconds between two looks at the host, and at a full disk.
WATCH = 1.0
#: Seconds that the job's end is kept in memory, if the disk has no room for it.
UNWRITTEN = 24 * 3600.0
#: Seconds in which the keeper ends once all is written down.
ENDING = 10.0
#: Why a job does not stop.
_REFUSED = (
    "It runs as another user, and sudo asks for a password on the host. To stop it, run there: "
    "sudo kill %d."
)
#: Exit codes of a command that can't be started, as shells have them.
NOT_FOUND, NOT_RUN = 127, 126


def run_job_keeper() -> int:
    """The main: reads its spec from stdin; prints one line of JSON when it listens."""
    spec = json.loads(sys.stdin.readline())
    asyncio.run(JobKeeper(spec).run())
    return 0


class JobKeeper:
    """Owns one job.

    Parameters
    ----------
    spec: ``id``, ``folder``, ``argv``, ``cwd``, ``env`` (all variables), ``limit`` (bytes of
        output that are kept).
    """

    def __init__(self, spec: Dict[str, Any]) -> None:
        self._folder: str = spec["folder"]
        self._spec = spec
        self._log = JobLogWriter(self._folder, spec.get("limit") or LIMIT)
        self._process: Optional[JobProcess] = None
        self._host = HostWatch("job")
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()  # the command
        self._kill: Optional[asyncio.TimerHandle] = None
        self._state: Dict[str, Any] = {
            "id": spec["id"],
            "state": RUNNING,
            "version": 1,
            "code": None,
            "cause": "",
            "paused": "",
            "started": now(),
            "ended": "",
            "pid": 0,
            "keeper": os.getpid(),
            "keeper_started": start_time(os.getpid()),
            "boot": boot(),
            "restarted": False,  # the host was, meanwhile
        }

    async def run(self) -> None:
        """Runs until the command and all that it started have ended."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._child_ended)
        loop.add_signal_handler(signal.SIGTERM, self._stop, 10.0)
        become_subreaper()
        path = job_socket(self._folder)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        server = await asyncio.start_unix_server(self._connected, path, limit=LONGEST_QUERY)
        write_state(self._folder, self._state)  # on a full disk it ends here
        self._start()
        self._save()
        report_start({"pid": self._state["pid"], "keeper": os.getpid()})
        watch = asyncio.ensure_future(self._watch())
        self._child_ended()  # it may have ended already
        await self._ended.wait()
        watch.cancel()
        await self._finish()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        server.close()
        exit_within(ENDING)
        await asyncio.sleep(0.05)  # for the answers to those who wait

    def _start(self) -> None:
        try:
            self._process = JobProcess(self._spec)
        except (OSError, ValueError) as error:
            missing = isinstance(error, FileNotFoundError)
            self._state["code"] = NOT_FOUND if missing else NOT_RUN
            what = "was not found" if missing else "could not be started: %s" % error
            self._state["cause"] = "The command %s %s." % (self._spec["argv"][0], what)
            self._ended.set()
            return
        self._state["pid"] = self._process.pid
        self._read_on()

    def _read_on(self) -> None:
        assert self._process is not None
        for stream, pipe in self._process.pipes.items():
            asyncio.get_running_loop().add_reader(pipe, self._read, stream, pipe)

    def _read(self, stream: str, pipe: int) -> bool:
        """Reads what is there; False if there is nothing for now, or any more."""
        try:
            data = os.read(pipe, PIECE)
        except BlockingIOError:
            return False
        if not data:
            asyncio.get_running_loop().remove_reader(pipe)
        self._log.feed(stream, data, final=not data)
        if self._log.waiting > WAITING:
            self._pause()
        self._notify()
        return bool(data)

    def _pause(self) -> None:
        assert self._process is not None
        if not self._state["paused"] and self._process.code is None:
            self._process.pause()
            for pipe in self._process.pipes.values():  # one of another user can't be paused
                asyncio.get_running_loop().remove_reader(pipe)
            self._set(paused="The output can't be written: %s." % self._log.problem)

    async def _watch(self) -> None:
        """Notices what happens to the host, and resumes a paused command when there is room."""
        while True:
            await asyncio.sleep(WATCH)
            self._host.check()
            if self._log.problem:
                self._log.write()
            if self._process and self._state["paused"] and not self._log.problem:
                self._process.resume()
                self._read_on()
                self._set(paused="")

    def _child_ended(self) -> None:
        if self._process is not None and self._process.reap():
            assert self._process.code is not None
            self._state["code"] = self._process.code
            self._state["cause"] = self._host.describe(self._process.code)
            self._ended.set()

    async def _finish(self) -> None:
        """Ends what the command left running, and writes down the last lines and the end."""
        loop = asyncio.get_running_loop()
        if self._kill is not None:
            self._kill.cancel()
        if self._process is not None:
            self._process.terminate_descendants()
            for stream, pipe in self._process.pipes.items():
                while self._read(stream, pipe):
                    pass
                loop.remove_reader(pipe)
                self._log.feed(stream, b"", final=True)
        self._state.update(state=ENDED, ended=now(), paused="", version=self._state["version"] + 1)
        self._notify()
        deadline = loop.time() + UNWRITTEN
        while loop.time() < deadline:  # it has no effect on the job any more, so it can wait
            self._log.write()
            if self._save() and not self._log.problem:
                break
            await asyncio.sleep(WATCH)
        self._log.close()

    def _stop(self, patience: float) -> None:
        process = self._process
        if process is None or process.code is not None or self._state["state"] in FINAL:
            return
        if self._state["state"] != STOPPING:
            self._set(state=STOPPING)
        if not process.signal(signal.SIGTERM):
            self._set(cause=_REFUSED % process.pid)
        if self._kill is not None:
            self._kill.cancel()
        loop = asyncio.get_running_loop()
        self._kill = loop.call_later(patience, process.signal, signal.SIGKILL)

    # ---- the state

    def _set(self, **fields: Any) -> None:
        self._state.update(fields, version=self._state["version"] + 1)
        self._save()
        self._notify()

    def _save(self) -> bool:
        try:
            write_state(self._folder, self._state)
        except OSError:
            return not os.path.isdir(self._folder)  # removed: no one wants to know it
        return True

    def _notify(self) -> None:
        event, self._changed = self._changed, asyncio.Event()
        event.set()

    def _status(self) -> Dict[str, Any]:
        return {**self._state, "last": self._log.last, "partial": self._log.partial}

    # ---- queries

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if peer_user(writer.get_extra_info("socket")) == os.getuid():
                query = json.loads(await with_timeout(reader.readline(), 10.0))
                writer.write(json.dumps(await self._answer(query)).encode() + b"\n")
                await writer.drain()
        except (OSError, asyncio.TimeoutError, ValueError, KeyError, TypeError):
            pass  # the daemon asks again
        finally:
            writer.close()

    async def _answer(self, query: Dict[str, Any]) -> Dict[str, Any]:
        if query["ask"] == "stop":
            self._stop(float(query["patience"]))
        loop = asyncio.get_running_loop()
        deadline = loop.time() + float(query.get("seconds", 0.0))
        while not self._is_new(query) and loop.time() < deadline:
            await is_set_within(self._changed, deadline - loop.time())
        return self._status()

    def _is_new(self, query: Dict[str, Any]) -> bool:
        if query["ask"] == "log" and self._state["state"] not in FINAL:
            return self._log.last > query["after"] or self._log.partial != query["partial"]
        return True

"""The keeper of a job: the process next to one command that owns it and its output.

It runs in a session of its own, and needs neither the link nor the daemon nor a Jupyter server to
continue. The output goes to disk line by line. When the command has ended, its end is stored, and
the keeper ends (see `job_log`). Standard library only.

It listens on a unix socket. A query is a line of JSON, and so is the answer, the job's status::

    {"ask": "status"}
    {"ask": "log", "after": N, "partial": {…}, "seconds": S}   answers when there is output after
                                                               line N, or the job has ended
    {"ask": "stop", "patience": S}   SIGTERM to the process group, and SIGKILL after S seconds
    {"ask": "restart", "restarts": N}   ends a server that was restarted less often, and starts it
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Dict, List, Optional

from ..protocol.dates import ago, now
from ..protocol.paths import boot, job_socket
from ..protocol.peer import peer_user
from ..protocol.processes import start_time
from .command_keeper import NEVER, PIECE_BYTES, CommandKeeper, claimed_socket
from .exit_cause import HostWatch, explain_jax
from .job_log import ENDED, FINAL, LOG_BYTES, RUNNING, STOPPING, JobLogWriter, write_state
from .job_silence import JobSilence
from .owned_process import JobProcess, become_subreaper
from .start_report import report_start

if TYPE_CHECKING:
    from ..serving.watch import ServerWatch

#: Bytes of output that wait in memory on a full disk before the command is paused.
WAITING_BYTES = 1 << 20
#: Bytes of the longest query and answer: both have the two lines that are not complete yet.
LONGEST_QUERY = 2 << 20
#: Seconds between two looks at the host, and at a full disk.
LOOK_SECONDS = 1.0
#: Seconds that the job's end is kept in memory, if the disk is full.
UNWRITTEN_SECONDS = 24 * 3600.0
#: Seconds in which those who wait get the end.
END_SECONDS = 10.0
#: Lines of its output that are told with its end, and characters of each.
TAIL_LINES, TAIL_CHARACTERS = 5, 300
#: What Python prints of an exception, and the seconds after which a program has ended by one.
TRACEBACK, LEAVING_SECONDS = b"Traceback (most recent call last)", 3.0
#: Why a job does not stop.
_REFUSED = (
    "It runs as another user, and sudo asks for a password on the host. To stop it, run there: "
    "sudo kill %d."
)
#: How our own lines in the output of a server begin.
_OWN = "[jupyter-tpu] "
#: What is said of the end of a process whose program had ended before.
_LEFT = "Its program had ended with an exception, and waited for the other hosts."
#: Exit codes of a command that can't be started, as shells have them.
NOT_FOUND, NOT_RUN = 127, 126


def run_job_keeper() -> int:
    """The main: reads its spec from stdin; prints one line of JSON when it listens."""
    spec = json.loads(sys.stdin.readline())
    become_subreaper()
    path = job_socket(spec["folder"])
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    try:
        JobKeeper(spec, claimed_socket(path)).run()
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    return 0


class JobKeeper(CommandKeeper):
    """Owns one job.

    Parameters
    ----------
    spec: ``id``, ``folder``, ``argv``, ``cwd``, ``env`` (all variables), ``limit`` (bytes of
        output that are kept); ``serving`` (see `ServerWatch`; None: it is no server).
    """

    def __init__(self, spec: Dict[str, Any], listener: Any) -> None:
        super().__init__(listener)
        self._folder: str = spec["folder"]
        self._spec = spec
        self._log = JobLogWriter(self._folder, spec.get("limit") or LOG_BYTES)
        self._process: Optional[JobProcess] = None
        self._host = HostWatch("job")
        self._silence = JobSilence()
        self._heard = time.monotonic()  # when it printed something
        self._failed_at = NEVER  # when to look whether its program has failed
        self._told_to_stop = False  # by a signal
        self._kill_at = NEVER
        self._watch_at = 0.0
        self._save_until = NEVER  # once it has ended
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
            "leaving_since": "",  # if its program has failed, and waits for other hosts
            "silent_since": "",  # if it has printed nothing for an unusually long time
            "usual_gap": 0.0,
            "tail": [],  # its last lines, when it has ended
        }
        self._server: "Optional[ServerWatch]" = None
        self._last_exit: Dict[str, Any] = {"code": 0, "cause": ""}  # of a server
        if spec.get("serving"):
            from ..serving.watch import ServerWatch  # other jobs need no memory for it

            self._server = ServerWatch(spec["serving"], lambda status: self._set(serving=status))
            self._state["serving"] = self._server.status
            spec["env"]["PORT"] = str(spec["serving"]["port"])

    def run(self) -> None:
        """Runs until the command and all that it started have ended."""
        signal.signal(signal.SIGTERM, self._note_signal)
        write_state(self._folder, self._state)  # on a full disk it ends here
        self._launch()
        self._save()
        report_start({"pid": self._state["pid"], "keeper": os.getpid()})
        self.serve()

    def _launch(self) -> None:
        """Starts the command; if that can't be, the job has an exit code."""
        problem = self._server.port_problem() if self._server is not None else ""
        if problem:
            self._state.update(code=NOT_RUN, cause=problem)
            return
        try:
            self._process = JobProcess(self._spec)
            self._state["pid"] = self._process.pid
        except (OSError, ValueError) as error:
            missing = isinstance(error, FileNotFoundError)
            self._state["code"] = NOT_FOUND if missing else NOT_RUN
            what = "was not found" if missing else "could not be started: %s" % error
            self._state["cause"] = "The command %s %s." % (self._spec["argv"][0], what)

    def advance(self, now: float) -> Optional[float]:
        server_due = self._advance_server(now) if self._server is not None else NEVER
        process = self._process
        if self._told_to_stop:
            self._told_to_stop = False
            self._stop(10.0)
        if self._state["state"] not in FINAL:
            if process is not None and process.reap():
                assert process.code is not None
                cause = self._host.describe(process.code)
                if self._restarts(cause, now):
                    return now
                self._state.update(code=process.code, cause=cause)
            if self._state["code"] is not None:
                self._end()
                now = time.monotonic()
                self._watch_at, self._save_until = now, now + UNWRITTEN_SECONDS
        elif now >= self._save_until:
            return None
        if now >= self._kill_at and process is not None:
            self._kill_at = NEVER
            process.signal(signal.SIGKILL)
        if now >= self._watch_at:
            self._watch_at = now + LOOK_SECONDS
            self._watch(now)
        waiting = any(peer.unsent or peer.query is not None for peer in self.peers)
        if self._save_until <= now + END_SECONDS and not waiting:
            return None
        return min(self._kill_at, self._watch_at, self._save_until, server_due)

    def _advance_server(self, now: float) -> float:
        """Checks the server, ends one that is unhealthy for too long, and starts it again."""
        server, process = self._server, self._process
        if server is None or self._state["state"] != RUNNING:
            return NEVER
        if process is None and now >= (server.policy.start_at or now):
            server.started(now)
            self._launch()
        due = server.advance(now)
        if server.is_to_end(now):
            self._end_server(now)
        return due

    def _end_server(self, now: float) -> None:
        """Ends the process of a server, which is started again if that is possible."""
        if self._process is not None and self._server is not None:
            self._process.signal(signal.SIGTERM)
            self._kill_at = now + self._server.END_SECONDS

    def _restarts(self, cause: str, now: float) -> bool:
        """Whether the command, a server that has exited, will be started again."""
        if self._server is None or self._state["state"] != RUNNING:
            return False
        self._collect()
        line = self._server.exited(cause, self._tail(), now)
        if not line:
            return False
        assert self._process is not None
        self._last_exit = {"code": self._process.code, "cause": cause}
        self._process = None
        self._log.feed("err", ("%s%s\n" % (_OWN, line)).encode())
        self._set(pid=0, paused="", leaving_since="")
        return True

    def _watch(self, now: float) -> None:
        """Notices what happens to the host, and resumes a paused command when the disk has
        space; then writes down the end.
        """
        self._host.check()
        if self._log.problem:
            self._log.write()
        if self._state["state"] in FINAL:
            # It has no effect on the job any more, so it can wait for space.
            if self._save() and not self._log.problem:
                self._save_until, self._watch_at = now + END_SECONDS, NEVER
        elif self._process and self._state["paused"]:
            if not self._log.problem:
                self._process.resume()
                self._set(paused="")
        else:
            self._watch_program(now)

    def _watch_program(self, now: float) -> None:
        """Notices a program that has failed, and does not end; and an unusual silence."""
        if self._failed_at <= now:
            from .job_stacks import is_leaving

            since = ago(now - self._failed_at + LEAVING_SECONDS)
            self._failed_at = NEVER
            if not self._state["leaving_since"] and is_leaving(os.getpid()):
                if self._server is None:
                    self._set(leaving_since=since, tail=self._tail())
                elif self._server.end_for(_LEFT):
                    self._end_server(now)
        if not self._state["silent_since"] and self._server is None:  # a server waits for requests
            silent = self._silence.seconds(now)
            if silent:
                usual = round(self._silence.usual_gap() or 0.0, 1)
                self._set(silent_since=ago(silent), usual_gap=usual)

    def _end(self) -> None:
        """Ends what the command left running, and takes the last lines."""
        ended = now()  # before that, which takes time: who has failed first is told by it
        self._collect()
        lines = [line for _, line in self._log.tail]
        left = _LEFT if self._state["leaving_since"] else ""
        cause = " ".join(filter(None, [self._state["cause"], left, explain_jax(lines)]))
        self._state.update(state=ENDED, ended=ended, paused="", silent_since="", cause=cause,
                           tail=self._tail(),
                           version=self._state["version"] + 1)  # fmt: skip

    def _collect(self) -> None:
        """Ends what the command left running, and reads what it has printed."""
        self._kill_at = NEVER
        if self._process is not None:
            self._process.terminate_descendants()
            for stream, pipe in self._process.pipes.items():
                while self._read(stream, pipe):
                    pass
                self._log.feed(stream, b"", final=True)
                os.close(pipe)
            self._process.pipes.clear()

    def _tail(self) -> List[str]:
        """The last lines; if there is an exception, those of stderr: others may come later."""
        tail = [(stream, line) for stream, line in self._log.tail if line.strip()]
        lines = [(stream, line) for stream, line in tail if not line.startswith(_OWN)]
        if any(line.startswith(TRACEBACK.decode()) for _, line in lines):
            lines = [(stream, line) for stream, line in lines if stream == "err"]
        return [line[:TAIL_CHARACTERS] for _, line in lines[-TAIL_LINES:]]

    def pipes(self) -> Any:
        pipes = self._process.pipes if self._process and not self._state["paused"] else {}
        readers = {pipe: partial(self._read_some, stream) for stream, pipe in pipes.items()}
        if self._server is None:
            return readers, {}
        return {**readers, **self._server.readers()}, self._server.writers()

    def _read_some(self, stream: str) -> None:
        assert self._process is not None
        pipe = self._process.pipes[stream]
        if self._read(stream, pipe) == b"":
            os.close(self._process.pipes.pop(stream))
        if self._log.waiting > WAITING_BYTES and self._process.code is None:
            self._process.pause()  # one of another user can't be paused
            self._set(paused="The output can't be written: %s." % self._log.problem)

    def _read(self, stream: str, pipe: int) -> Optional[bytes]:
        """Reads what is there; None if there is nothing for now."""
        try:
            data = os.read(pipe, PIECE_BYTES)
        except BlockingIOError:
            return None
        self._log.feed(stream, data, final=not data)
        if data:
            self._heard = time.monotonic()
            self._silence.note_output(self._heard)
            if stream == "err" and TRACEBACK in data:
                self._failed_at = self._heard + LEAVING_SECONDS
            if self._state["silent_since"]:
                self._set(silent_since="")
        return data

    def _note_signal(self, *_: Any) -> None:
        self._told_to_stop = True

    def _stop(self, patience: float) -> None:
        process = self._process
        if process is None and self._server is not None and self._state["state"] == RUNNING:
            self._set(state=STOPPING, **self._last_exit)
        if process is None or process.code is not None or self._state["state"] in FINAL:
            return
        if self._state["state"] != STOPPING:
            self._set(state=STOPPING)
        if not process.signal(signal.SIGTERM):
            self._set(cause=_REFUSED % process.pid)
        self._kill_at = time.monotonic() + patience

    # ---- the state

    def _set(self, **fields: Any) -> None:
        self._state.update(fields, version=self._state["version"] + 1)
        self._save()

    def _save(self) -> bool:
        try:
            write_state(self._folder, self._state)
        except OSError:
            return not os.path.isdir(self._folder)  # removed: no one wants to know it
        return True

    # ---- queries

    def add(self, peer: Any) -> None:
        peer.query = None
        with socket.socket(fileno=os.dup(peer.source)) as connection:
            user = peer_user(connection)
        if user == os.getuid():
            super().add(peer)
        else:
            peer.close()

    def ask(self, peer: Any) -> bool:
        if b"\n" in peer.received:
            query = json.loads(peer.received)
            peer.received.clear()
            if query["ask"] == "stop":
                self._stop(float(query["patience"]))
            elif query["ask"] == "restart":
                restarts, running = int(query["restarts"]), self._state["state"] == RUNNING
                if self._server is not None and running and self._server.follow(restarts):
                    self._end_server(time.monotonic())
            peer.answer_at = time.monotonic() + float(query.get("seconds", 0.0))
            self._is_new(query)  # whether that can be asked
            peer.query = query
        return len(peer.received) < LONGEST_QUERY

    def answer(self, peer: Any, now: float) -> float:
        if peer.query is not None and (self._is_new(peer.query) or now >= peer.answer_at):
            status = {**self._state, "last": self._log.last, "partial": self._log.partial,
                      "silent": now - self._heard}  # fmt: skip
            peer.unsent += json.dumps(status).encode() + b"\n"
            peer.query, peer.answer_at = None, NEVER
        return float(peer.answer_at)

    def _is_new(self, query: Dict[str, Any]) -> bool:
        if query["ask"] == "log" and self._state["state"] not in FINAL:
            return bool(self._log.last > query["after"] or self._log.partial != query["partial"])
        return True

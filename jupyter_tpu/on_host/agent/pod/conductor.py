"""The conductor: the process that is the pod kernel, kept on host 0.

For the keeper it is a Jupyter kernel. It has the process next to each host's kernel started, runs
each cell on all of them in the same order, and puts their output together. What concerns one
process only (completion, inspection, widgets, the debugger) is host 0's.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import time
import traceback
from typing import Any, Callable, Dict, List, Optional, Set, Tuple

from ..keeper.kernel_checkpoint import KIND as CHECKPOINT
from ..keeper.kernel_session import KIND as SESSION
from ..protocol import messages
from ..protocol.events import IOPUB, SHELL, STDIN
from ..protocol.timeouts import exit_within, is_set_within
from .cell_ends import CellEnds, result_of
from .cell_output import RESTART_OFFER, CellRequest, PodCellOutput
from .clients import Clients
from .direct_requests import DirectRequests
from .host_names import host_ranges, sentence
from .host_states import HostStatesFile, host_states
from .hosts import KIND, Asked, PodHosts, free_port
from .looks import Looks
from .pod_actions import (
    Abort,
    Action,
    Check,
    Finish,
    Interrupt,
    Look,
    PodCell,
    Ready,
    Refuse,
    Result,
    RunCell,
)
from .pod_commands import command_of, parse_code, run_command
from .pod_sessions import PodSessions
from .pod_start import FIRST_CHECK, PodStart
from .pod_state import OUT_OF_STEP, STARTING, PodState
from .relaying import MessageRelay, Parsed, parse
from .shared_input import SharedInput
from .sockets import KernelSockets
from .start_notice import StartNotice

#: Seconds after which a kernel whose hosts are still starting answers, so that its first cell can
#: say what it waits for.
START_PATIENCE_SECONDS = 10.0
#: Seconds for the hosts to shut down.
SHUT_DOWN = 3.0


class Conductor:
    """One pod kernel.

    Parameters
    ----------
    connection: the contents of the connection file.
    spec: ``address`` (of host 0 in the pod's network).
    hosts: their kernels are starting.
    """

    def __init__(self, connection: Dict[str, Any], spec: Dict[str, Any], hosts: PodHosts) -> None:
        self._hosts = hosts
        self._count = len(hosts)
        self._address: str = spec["address"]
        self._client = messages.MessageSigner(connection["key"], "kernel")
        self._relay = MessageRelay(self._client, hosts.signer)
        self._state = PodState(self._count)
        self._states_file = HostStatesFile(os.path.dirname(connection["ip"]))
        self._start = PodStart(self._count, time.monotonic())
        self._looks = Looks(hosts)
        self._looking: Set[asyncio.Task[None]] = set()
        self._sockets = KernelSockets(connection, self._from_client)
        self._clients = Clients(self._sockets, self._client)
        self._start_notice = StartNotice(self._client.session[:8], self._clients.publish)
        self._direct = DirectRequests(
            self._relay,
            self._sockets.send,
            self._clients,
            hosts.send,
        )
        self._sessions = PodSessions(hosts, self._clients)
        self._cells: Dict[
            str, CellRequest
        ] = {}  # that have not ended; clients may repeat their ids
        self._numbers = itertools.count(1)  # theirs here
        self._output: Optional[PodCellOutput] = None  # of the cell that runs
        self._input: Optional[SharedInput] = None  # of the cell that runs
        self._ends = CellEnds()  # of the latest cell
        self._held: Optional[List[Tuple[int, List[bytes]]]] = []  # until the hosts have started
        self._coordinator = ""  # JAX's, on host 0
        self._info: Dict[str, Any] = {}  # the content of host 0's kernel_info_reply
        self._code = 0
        self._ended = asyncio.Event()
        self._changed = asyncio.Event()  # when something is due has
        hosts.listen(self)

    async def run(self) -> int:
        """Runs until the kernel is shut down, or all hosts' kernels have ended."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupt)
        loop.add_signal_handler(signal.SIGTERM, self._ended.set)
        tasks = [asyncio.ensure_future(self._keep_time()), asyncio.ensure_future(self._watch())]
        await self._ended.wait()
        exit_within(SHUT_DOWN + 2.0)
        await self._hosts.close(SHUT_DOWN)
        for task in (*tasks, *self._looking):
            task.cancel()
        self._sockets.close()
        return self._code

    async def _watch(self) -> None:
        """Ends with the keeper, and answers for hosts that take long to start."""
        parent, begun = os.getppid(), time.monotonic()
        while True:
            await asyncio.sleep(0.5)
            if os.getppid() != parent:
                self._ended.set()
            if self._start.tick(time.monotonic()):
                self._do(self._started())
            self._start_notice.update(self._start.waiting)
            self._states_file.write(host_states(self._state))
            if self._held is not None and time.monotonic() > begun + START_PATIENCE_SECONDS:
                self._release_held()

    async def _keep_time(self) -> None:
        while True:
            due = self._state.next_deadline
            self._changed.clear()
            await is_set_within(
                self._changed, None if due is None else max(0.0, due - time.monotonic())
            )
            self._do(self._state.tick(time.monotonic()))

    # ---- start

    def noted(self, host: int, note: Dict[str, Any]) -> None:
        """What the process next to a host's kernel says."""
        self._take(host, lambda: self._note(host, note))

    def _note(self, host: int, note: Dict[str, Any]) -> List[Action]:
        if note.get("event") == "ready":
            if host == 0:
                self._info = dict(note["info"])
            return self._start_answered(host, "kernels", {})
        if note.get("event") == "places":
            if self._output is not None:
                self._output.note_places(host, note.get("places"))
            self._looks.told("places", host)
        elif note.get("event") == "exited" and host == 0:
            self._code = int(note.get("code") or 0)
        return []

    def gone(self, host: int, reason: str) -> None:
        for what in ("stack", "places"):
            self._looks.told(what, host)
        self._do(self._state.died(host, reason, time.monotonic()))
        self._direct.host_died(host, reason)
        if not self._state.living:
            self._ended.set()

    def _start_answered(self, host: int, part: str, answer: Dict[str, Any]) -> List[Action]:
        if self._start.answered(host, part, answer, time.monotonic()):
            return self._started()
        if part == "kernels":
            if host == 0:  # others may have taken the port before
                self._coordinator = "%s:%d" % (self._address, free_port(self._address))
            self._hosts.ask_to_start(self._start.due(self._coordinator))
        return []

    def _started(self) -> List[Action]:
        start = self._start
        now = time.monotonic()
        self._start_notice.update("")
        return self._state.started(now, checkable=start.joined, problem=start.problem)

    def _release_held(self) -> None:
        held, self._held = self._held or [], None
        for channel, parts in held:
            self._from_client(channel, parts)

    # ---- from clients

    def _from_client(self, channel: int, parts: List[bytes]) -> None:
        if self._held is not None and channel == SHELL:
            self._held.append((channel, parts))
            return
        try:
            message = parse(parts)
        except ValueError:
            return
        try:
            content = message.content
        except ValueError:
            why = "BadRequest", "The content of this request is not a JSON object."
            self._clients.refuse(message.idents, message.header, message.kind, channel, why)
            return
        if channel == STDIN:
            if message.kind == "input_reply" and self._input is not None:
                self._input.answered(content)
        elif message.kind == "shutdown_request":
            self._answer(message, channel, "shutdown_reply", {"status": "ok", **content})
            self._ended.set()
        elif message.kind == "interrupt_request":
            self._interrupt()
            self._answer(message, channel, "interrupt_reply", {"status": "ok"})
        elif message.kind == "kernel_info_request" and self._info and self._start.part:
            # Host 0 can't answer while it joins the others.
            self._clients.publish("status", {"execution_state": "busy"}, message.header)
            self._answer(message, channel, "kernel_info_reply", self._info)
            self._clients.publish("status", {"execution_state": "idle"}, message.header)
        elif message.kind == "execute_request" and not message.fields.get("subshell_id"):
            self._submit(message)
        elif message.kind == SESSION:
            self._ask_session(message)
        else:
            if message.kind == CHECKPOINT:  # before Google stops the TPU: all save together
                for host in self._state.able:
                    if host:
                        self._hosts.send(host, channel, self._relay.to_host(message))
            self._direct.submit(channel, message)

    def _ask_session(self, message: Parsed) -> None:
        content = message.content
        if content.get("do") != "cancel":
            self._do(self._state.submit(self._sessions.submit(message), time.monotonic()))
            return
        cell = self._sessions.find(content.get("id"))
        if cell and self._state.withdraw(cell):
            self._sessions.withdrawn(cell)
        elif cell:
            self._sessions.cancel(cell)

    def _answer(self, message: Parsed, channel: int, kind: str, content: Dict[str, Any]) -> None:
        self._clients.reply(message.idents, message.header, kind, content, channel)

    def _submit(self, message: Parsed) -> None:
        content = message.content
        code = str(content.get("code", ""))
        silent = bool(content.get("silent"))
        stop = bool(content.get("stop_on_error", True)) and not silent
        request = CellRequest(message.idents, message.header, content, code, 0, silent)
        id = str(next(self._numbers))
        self._cells[id] = request
        command = command_of(code)
        if command is not None:
            self._run_command(id, command)
            return
        try:
            parsed = parse_code(code, self._count)
        except ValueError as error:
            self._refuse(id, "UsageError", str(error))
            return
        self._cells[id] = request._replace(
            content={**content, "code": parsed.code}, first_line=parsed.first_line
        )
        if self._state.phase == STARTING and self._start.waiting and not silent:
            self._start_notice.update(self._start.waiting)
            self._start_notice.add(request.header)
        self._do(self._state.submit(PodCell(id, parsed.hosts, stop), time.monotonic()))

    def _run_command(self, id: str, word: str) -> None:
        """Runs `%hosts`. A check waits for its turn, as a cell does."""
        if word == "check":
            self._do(self._state.submit(PodCell(id, check=True), time.monotonic()))
            return
        request = self._cells.pop(id)
        text = run_command(word, self._state, self._direct) + "\n"
        self._clients.begin(request)
        self._clients.publish("stream", {"name": "stdout", "text": text}, request.header)
        self._clients.end(request, _OK)

    # ---- what the state machine wants

    def _do(self, actions: List[Action]) -> None:
        for action in actions:
            try:
                self._act(action)
            except Exception as error:  # a mistake of ours ends the cell, and no host
                traceback.print_exc()
                cell = getattr(action, "cell", None)
                if cell is not None and cell.session:
                    self._sessions.refused(cell.id, str(error))
                elif cell is not None and cell.id in self._cells:
                    self._refuse(cell.id, type(error).__name__, str(error), begun=True)
        self._changed.set()

    def _act(self, action: Action) -> None:
        if isinstance(action, RunCell) and action.cell.session:
            self._sessions.run(action)
        elif isinstance(action, RunCell):
            self._run(action)
        elif isinstance(action, Interrupt):
            self._hosts.interrupt(action.hosts)
            self._show_interrupted(action.hosts)
        elif isinstance(action, Look):
            self._look(action)
        elif isinstance(action, Check):
            cell = self._state.cell
            if cell is not None and cell.check:
                self._clients.begin(self._cells[cell.id])
            for host in action.hosts:
                number = {"number": FIRST_CHECK + action.number}
                self._hosts.ask(Asked(host, "check", action.number), "check", number)
        elif isinstance(action, Finish) and action.cell.session:
            self._sessions.finished(action)
        elif isinstance(action, Finish):
            self._finish(action)
        elif isinstance(action, Refuse) and action.cell.session:
            self._sessions.refused(action.cell.id, action.problem)
        elif isinstance(action, Refuse):
            self._refuse(action.cell.id, *self._refusal(action.problem))
        elif isinstance(action, Abort):
            self._abort(action.cell.id)
        elif isinstance(action, Ready) and self._held is not None:
            self._release_held()

    def _run(self, action: RunCell) -> None:
        request = self._cells[action.cell.id]
        self._input = SharedInput(
            action.hosts[0],
            lambda question: self._clients.ask(request, question),
            lambda host, answer: self._hosts.send(
                host, STDIN, self._hosts.signer.message("input_reply", answer)
            ),
        )
        self._ends = CellEnds()
        self._output = PodCellOutput(
            request,
            "pod-%d-%s" % (action.number, self._client.session[:8]),
            action.hosts,
            lambda kind, content: self._clients.publish(kind, content, request.header),
        )
        self._clients.begin(request)
        notices, self._start.notices = self._start.notices, []
        if notices:
            self._clients.say(request.header, "\n".join(notices))
        # What has to be aborted is decided here, for all hosts alike.
        running = {**request.content, "stop_on_error": False}
        counting = {**running, "code": "pass", "user_expressions": {}}
        for host in (*action.hosts, *action.others):
            content = running if host in action.hosts else counting
            asked = Asked(host, "cell", action.number)
            id = self._hosts.request(host, SHELL, "execute_request", content, asked)
            if host in (0, self._direct.debugged):
                self._direct.note_cell(id, request.header)

    def _look(self, action: Look) -> None:
        task = asyncio.ensure_future(self._look_at(action))
        self._looking.add(task)
        task.add_done_callback(self._looking.discard)

    async def _look_at(self, action: Look) -> None:
        """Asks hosts where they are in the running cell, and shows it."""
        output, stopped = self._output, self._direct.stopped
        await self._looks.ask(action.hosts, self._state.number, chips=action.why != "glance")
        if output is None or output is not self._output:
            return
        busy = [host for host in self._state.busy if host in action.hosts]
        if action.why == "slow" and busy:
            output.show_slow(sorted(self._state.results), busy, action.seconds, stopped)
        elif action.why == "glance" and not self._state.results:
            output.show_standing(stopped)

    def _show_interrupted(self, hosts: Tuple[int, ...]) -> None:
        raised = {
            host: result for host, result in self._state.results.items() if result.status != "ok"
        }
        if raised and hosts and self._output is not None:
            self._output.show_interrupted(hosts, raised)

    def _finish(self, action: Finish) -> None:
        output, self._output, self._input = self._output, None, None
        request = self._cells[action.cell.id]
        if output is not None and output.request is request:
            content = output.finish(action)
        elif action.problem:  # of `%hosts check`
            self._refuse(action.cell.id, *self._refusal(action.problem), begun=True)
            return
        else:
            text = "All hosts are in step.\n"
            self._clients.publish("stream", {"name": "stdout", "text": text}, request.header)
            content = _OK
        self._clients.end(self._cells.pop(action.cell.id), content)

    def _refusal(self, problem: str) -> Tuple[str, str]:
        return ("OutOfStep" if self._state.phase == OUT_OF_STEP else "HostError"), problem

    def _refuse(self, id: str, ename: str, evalue: str, *, begun: bool = False) -> None:
        """Ends a cell that does not run with an error."""
        request = self._cells.pop(id)
        if not begun:
            self._clients.begin(request)
        offer = RESTART_OFFER if ename == "OutOfStep" else None
        self._clients.fail(request, ename, evalue, offer)

    def _abort(self, id: str) -> None:
        request = self._cells.pop(id)
        self._clients.begin(request)
        self._clients.end(request, {"status": "aborted"})

    def _interrupt(self) -> None:
        if self._state.phase == STARTING:
            self._start.interrupt()
            self._do(self._started())
        self._do(self._state.interrupt(time.monotonic()))

    # ---- to and from hosts

    def _take(self, host: int, read: Callable[[], List[Action]]) -> None:
        """Does what follows from what a host sent, which *read* reads."""
        if host in self._state.dead:
            return
        try:
            actions = read()
        except Exception as error:  # what a host sends must not end the kernel
            traceback.print_exc()
            name = sentence(host_ranges([host]))
            text = "%s sent a message that can't be read: %r." % (name, error)
            self._hosts.end(host)
            self.gone(host, text)
        else:
            self._do(actions)

    def heard(self, host: int, channel: int, parts: List[bytes]) -> None:
        """A message of a host's kernel."""
        self._take(host, lambda: self._read(host, channel, parts))

    def _read(self, host: int, channel: int, parts: List[bytes]) -> List[Action]:
        message = parse(parts)
        asked = self._hosts.asked_for(host, message.parent)
        if asked is not None and message.kind != "debug_event":
            return self._answered(host, channel, message, asked)
        if host == 0 and message.kind == SESSION and "wanted" in message.content:
            cell = self._sessions.wanted(message.content, is_free=self._state.is_free)
            return self._state.submit(cell, time.monotonic()) if cell is not None else []
        if self._direct.takes(host, message):
            self._direct.received(host, channel, message)
        return []

    def _answered(self, host: int, channel: int, message: Parsed, asked: Asked) -> List[Action]:
        """A host's message about something that the conductor has asked."""
        now = time.monotonic()
        if message.kind == KIND:
            self._hosts.forget(message.parent)
            answer = dict(message.content["answer"])
            if asked.what == "start":
                return self._start_answered(host, asked.part, answer)
            if asked.what == "check":
                problem = str(answer.get("problem", ""))
                if problem:
                    problem = "The check failed on host %d: %s" % (host, problem[:500])
                return self._state.checked(host, asked.number, problem, now)
            if asked.what == "stack":
                self._looks.told("stack", host)
                if self._output is not None and asked.number == self._state.number:
                    self._output.note_position(host, answer.get("frames"))
        elif asked.what == "session":
            if message.kind != SESSION or not self._sessions.answered(host, message.content):
                return []
            self._hosts.forget(message.parent)
            return self._state.finished(host, asked.number, Result("ok"), now)
        elif asked.what != "cell" or asked.number != self._state.number:
            return []
        elif message.kind in ("execute_reply", "status"):
            reply = self._ends.note(host, message.kind, message.content)
            if reply is not None:
                self._hosts.forget(message.parent)
                return self._ended_on(host, asked.number, reply)
        elif channel == STDIN and message.kind == "input_request":
            if self._input is not None:
                self._input.requested(host, message.content)
        elif channel == IOPUB and self._output is not None:
            output = self._output
            if output.note(host, message.kind, message.content):
                parent = output.request.header
                self._sockets.send(IOPUB, self._relay.to_client(message, message.idents, parent))
        return []

    def _ended_on(self, host: int, number: int, reply: Dict[str, Any]) -> List[Action]:
        """A host has ended the cell of that *number*."""
        result = result_of(reply)
        self._clients.count = result.execution_count or self._clients.count
        if self._output is not None:
            self._output.ended(host, reply)
        if self._input is not None:
            self._input.ended(host)
        return self._state.finished(host, number, result, time.monotonic())


#: The reply of a cell that the conductor runs itself.
_OK: Dict[str, Any] = {"status": "ok", "execution_count": None, "user_expressions": {}}

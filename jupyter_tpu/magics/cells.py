"""Cells that run on a host: their output here, the value of the last line, and a handle for a cell
that is not waited for.
"""

from __future__ import annotations

import base64
import getpass
import math
import queue
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from ..on_host.variables.codec import CodecError, decode
from ..on_host.variables.kernel import CLASSES, VALUE
from ..terminal.streams import write_plain
from .failures import COLOURS, FromHost, MagicError, plain_errors, remote_error
from .installation import host_call
from .remote import ALIVE_EVERY, wait_for_turn
from .variables import pull_value

if TYPE_CHECKING:
    from .comms import Comms
    from .remote import CellRun, RemoteKernel


#: Evaluated by the kernel after a cell, see ``user_expressions`` of Jupyter's execute_request.
EXPRESSIONS = {"value": host_call("last_value")}


class RemoteValue:
    """A value that stays in its kernel on a TPU, and is shown as there. `pull` brings it here."""

    def __init__(self, kernel: RemoteKernel, content: dict[str, Any]) -> None:
        self._kernel = kernel
        self._content = content  # of its execute_result

    def pull(self, *, unpickle: bool = False) -> Any:
        """The value itself; arguments and errors as of ``%tpu pull``."""
        return pull_value(self._kernel, self.name, unpickle=unpickle)

    @property
    def name(self) -> str:
        """The variable that IPython made of it in the kernel: ``_5``."""
        return f"_{self._content['execution_count']}"

    def __repr__(self) -> str:
        return str(self._content["data"].get("text/plain", f"<value on {self._kernel.tpu}>"))

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return self._content["data"], self._content.get("metadata", {})


def value_of(kernel: RemoteKernel, content: dict[str, Any], reply: dict[str, Any]) -> Any:
    """The value of an execute_result: itself if it came with the reply, else a `RemoteValue`."""
    sent = reply.get("user_expressions", {}).get("value", {}).get("data", {}).get(VALUE)
    if sent is not None:
        try:
            buffers = [bytearray(base64.b64decode(part)) for part in sent["buffers"]]
            options = {"unpickle": False, "import_jax": False}
            return decode(sent["header"], buffers, names=["_"], **options)["_"]
        except (CodecError, LookupError, TypeError, ValueError):  # NumPy is not installed here
            pass
    return RemoteValue(kernel, content)


def show_result(shell: Any, kernel: RemoteKernel, content: dict[str, Any], value: Any) -> None:
    """Makes *value* the local cell's result, ``_`` and ``Out[n]``, shown as on the host."""
    hook: Any = shell.displayhook
    if sys.displayhook is not shell.displayhook:  # %%capture
        sys.displayhook(RemoteValue(kernel, content))
        return
    # What the hook does itself, with the host's representations instead of local ones.
    hook.check_for_underscore()
    hook.start_displayhook()
    hook.write_output_prompt()
    hook.update_user_ns(value)
    hook.fill_exec_result(value)
    hook.write_format_data(content["data"], content.get("metadata", {}))
    hook.log_output(content["data"])
    hook.finish_displayhook()


class Outcome(NamedTuple):
    """How a cell ended that raised nothing."""

    #: Its execute_result, or None.
    content: dict[str, Any] | None
    #: The value of its last line, or what stands for it.
    value: Any
    #: Whether it ended its kernel, with exit().
    exited: bool


class CellOutput:
    """Puts a cell's messages into the local notebook, apart from its last result and its error."""

    def __init__(self, comms: Comms) -> None:
        self._comms = comms
        self.result: dict[str, Any] | None = None
        self.error: dict[str, Any] | None = None
        #: The names of the error's built-in classes.
        self.classes: list[str] = []

    def keep(self, message: dict[str, Any]) -> bool:
        """Whether a message is the result or about the error, which are kept here."""
        kind, content = message["msg_type"], message["content"]
        if kind == "execute_result":
            self.result = content
        elif kind == "error":
            self.error = content
        elif kind == "display_data" and CLASSES in content["data"]:
            self.classes = content["data"][CLASSES]
        else:
            return False
        return True

    def show(self, message: dict[str, Any]) -> None:
        from IPython.display import clear_output

        kind, content = message["msg_type"], message["content"]
        if kind in ("execute_result", "error") and self.result is not None:
            _publish(self.result)  # not the last one: ast_node_interactivity = "all"
            self.result = None
        if self.keep(message):
            return
        if kind == "stream":
            stream = sys.stderr if content["name"] == "stderr" else sys.stdout
            write_plain(stream, content["text"])
        elif kind in ("display_data", "update_display_data"):
            _publish(content, update=kind == "update_display_data")
        elif kind == "clear_output":
            clear_output(wait=content.get("wait", False))
        elif kind.startswith("comm_"):
            self._comms.from_remote(message)


def _publish(content: dict[str, Any], *, update: bool = False) -> None:
    from IPython.display import publish_display_data

    transient = content.get("transient") or {}
    publish_display_data(
        content["data"], content.get("metadata", {}), transient=transient, update=update
    )


def print_concurrently(kernel: RemoteKernel, code: str, host: str | None = None) -> None:
    """Runs *code* there, also while a cell runs, and prints what it prints. Raises its error.

    host: of a kernel on all hosts, the only one that runs it. While a cell runs, host 0 does.
    """
    if host is None and kernel.all_hosts and kernel.unfinished() is not None:
        print("A cell is running, so this is what host 0 says:")
    run = kernel.execute_concurrently(code) if host is None else kernel.execute_on(host, code)
    for _, message in run:
        content = message["content"]
        if message["msg_type"] == "stream":
            stream = sys.stderr if content["name"] == "stderr" else sys.stdout
            write_plain(stream, content["text"])
        elif message["msg_type"] == "display_data" and kernel.all_hosts:
            _publish(content)  # what differs by host
        elif message["msg_type"] == "error":
            raise remote_error(content, [content["ename"]])


def _outcome(run: CellRun, output: CellOutput) -> Outcome:
    """How the cell ended; raises its error, of a class as `remote_error` makes it."""
    assert run.reply is not None
    reply = run.reply["content"]
    if reply["status"] == "aborted":
        raise MagicError("The cell did not run: its kernel was interrupted first.")
    if reply["status"] == "error" or output.error is not None:
        error = output.error or reply
        raise remote_error(error, output.classes or [error.get("ename", "")])
    exited = any(
        payload.get("source") == "ask_exit" and not payload.get("keepkernel")
        for payload in reply.get("payload", [])
    )
    value = None if output.result is None else value_of(run.kernel, output.result, reply)
    return Outcome(output.result, value, exited)


def start_cell(kernel: RemoteKernel, code: str, *, allow_stdin: bool) -> CellRun:
    return kernel.execute(code, allow_stdin=allow_stdin, user_expressions=EXPRESSIONS)


def run_cell(
    shell: Any, kernel: RemoteKernel, comms: Comms, code: str, *, allow_stdin: bool
) -> Outcome:
    """Runs *code* there and shows its output, as a local cell does. Raises the cell's error.

    The first interrupt interrupts the remote kernel, and waits for its reply; the second one stops
    waiting.
    """
    wait_for_turn(kernel)
    run = start_cell(kernel, code, allow_stdin=allow_stdin)
    output = CellOutput(comms)
    interrupted = False
    while True:
        try:
            channel, message = next(run)
            if channel == "shell":
                break
            if channel == "stdin":
                kernel.answer(_answer(message["content"]))
            else:
                output.show(message)
        except KeyboardInterrupt:
            if interrupted:
                run.detached = True
                raise
            interrupted = True
            kernel.interrupt()
    outcome = _outcome(run, output)
    if outcome.content is not None:
        show_result(shell, kernel, outcome.content, outcome.value)
    _show_payloads(message["content"].get("payload", []))
    return outcome


class CellHandle:
    """A cell that runs on a TPU while the notebook continues: what ``%%tpu --no-wait`` returns."""

    def __init__(self, comms: Comms, run: CellRun) -> None:
        run.detached = True
        self._comms = comms
        self._run = run
        self._messages: list[dict[str, Any]] = []
        self._ended = False  # and all messages taken
        self._outcome: Outcome | BaseException | None = None

    def done(self) -> bool:
        """Whether the cell has ended, with a value or an error, or with its kernel."""
        while not self._ended:
            try:
                self._receive_next(0.0)
            except queue.Empty:
                return not self._run.kernel.alive()
        return True

    def result(self, timeout: float | None = None) -> Any:
        """Waits until the cell has ended; returns the value of its last line, or None.

        The value is what ``_`` is after a ``%%tpu`` cell. Raises what the cell raised, and
        TimeoutError after *timeout* seconds. An interrupt ends the wait and not the cell.
        """
        end = math.inf if timeout is None else time.monotonic() + timeout
        while not self._ended:
            try:
                self._receive_next(max(0.0, min(ALIVE_EVERY, end - time.monotonic())))
            except queue.Empty:
                if not self._run.kernel.alive():
                    raise MagicError(f"The kernel on {self._run.kernel.tpu} has ended.") from None
                if time.monotonic() >= end:
                    raise TimeoutError(f"The cell still runs after {timeout:g} s.") from None
        if self._outcome is None:
            output = CellOutput(self._comms)
            for message in self._messages:
                output.keep(message)
            try:
                self._outcome = _outcome(self._run, output)
            except (Exception, FromHost) as error:
                self._outcome = error
        if isinstance(self._outcome, BaseException):
            raise self._outcome
        return self._outcome.value

    @property
    def output(self) -> str:
        """What it has printed until now, with the text of what it displayed."""
        self.done()
        return "".join(map(_text, self._messages))

    def show(self) -> None:
        """Shows its output until now, with pictures and tables, as output of this cell."""
        self.done()
        output = CellOutput(self._comms)
        for message in self._messages:
            output.show(message)
        if output.result is not None:
            _publish(output.result)
        if output.error is not None:
            write_plain(sys.stderr, "\n".join([*output.error["traceback"], ""]))

    def interrupt(self) -> None:
        """Interrupts the cell; raises if another one still runs before it."""
        if self.done():
            return
        if not self._run.begun:
            raise MagicError("The cell has not started yet. Another cell is running there.")
        with plain_errors():
            self._run.kernel.interrupt()

    def _receive_next(self, seconds: float) -> None:
        """Takes the next message, which comes in *seconds*, or raises ``queue.Empty``."""
        channel, message = self._run.next_within(seconds)
        if channel == "shell":
            self._ended = True
        elif channel == "iopub":
            self._messages.append(message)

    def __repr__(self) -> str:
        ended = self.done()
        state = "ended" if ended else "running" if self._run.begun else "waiting"
        return f"<cell on {self._run.kernel.tpu}: {state}, {self._run.seconds:.0f} s>"


def _text(message: dict[str, Any]) -> str:
    content = message["content"]
    if message["msg_type"] == "stream":
        return str(content["text"])
    if message["msg_type"] == "error":
        return COLOURS.sub("", "\n".join(content["traceback"])) + "\n"
    text = content.get("data", {}).get("text/plain")
    return f"{text}\n" if text is not None else ""


def _show_payloads(payloads: list[dict[str, Any]]) -> None:
    """The answer to ``object?``, meant for a pager: shown as output of the cell."""
    for payload in payloads:
        if payload.get("source") == "page" and payload.get("data"):
            _publish({"data": payload["data"]})


def _answer(content: dict[str, Any]) -> str:
    """The user's answer to input() or getpass() on the host."""
    prompt = content.get("prompt", "")
    return getpass.getpass(prompt) if content.get("password") else input(prompt)

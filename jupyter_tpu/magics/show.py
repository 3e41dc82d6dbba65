"""Puts a remote kernel's messages, and an operation's progress, into the local notebook."""

from __future__ import annotations

import getpass
import html
import queue
import sys
from typing import TYPE_CHECKING, Any

from ..fleet.models import Operation
from .comms import Comms
from .remote import RemoteKernel

if TYPE_CHECKING:
    from ..commands.session import Session


class RemoteError(Exception):
    """What a cell raised on the host. Its class has the name of the exception there."""

    def __init__(self, value: str, traceback: list[str]) -> None:
        super().__init__(value)
        self._traceback = traceback

    def _render_traceback_(self) -> list[str]:
        """Called by IPython: the host's own traceback instead of ours."""
        return self._traceback


class MagicError(Exception):
    """A failure shown as one sentence, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def run_cell(kernel: RemoteKernel, comms: Comms, code: str, *, allow_stdin: bool) -> None:
    """Runs *code* there and shows its output, as a local cell does. Raises :class:`RemoteError`.

    The first interrupt interrupts the remote kernel, and waits for its reply; the second one stops
    waiting.
    """
    messages = kernel.execute(code, allow_stdin=allow_stdin)
    error: dict[str, Any] | None = None
    interrupted = False
    while True:
        try:
            channel, message = next(messages)
            if channel == "shell":
                break
            if channel == "stdin":
                kernel.answer(_answer(message["content"]))
            elif message["msg_type"] == "error":
                error = message["content"]
            else:
                _show(message, comms)
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            kernel.interrupt()
    reply = message["content"]
    if reply["status"] == "error":
        error = error or reply
    if error is not None:
        name = error.get("ename", "Error")
        raise type(name, (RemoteError,), {})(error.get("evalue", ""), error.get("traceback") or [])
    if reply["status"] == "aborted":
        raise MagicError("The cell did not run: its kernel was interrupted first.")
    _show_payloads(reply.get("payload", []))


def _show(message: dict[str, Any], comms: Comms) -> None:
    from IPython.display import clear_output, publish_display_data

    kind, content = message["msg_type"], message["content"]
    if kind == "stream":
        stream = sys.stderr if content["name"] == "stderr" else sys.stdout
        stream.write(content["text"])
        stream.flush()
    elif kind in ("display_data", "update_display_data", "execute_result"):
        publish_display_data(
            content["data"],
            content.get("metadata", {}),
            transient=content.get("transient") or {},
            update=kind == "update_display_data",
        )
    elif kind == "clear_output":
        clear_output(wait=content.get("wait", False))
    elif kind.startswith("comm_"):
        comms.from_remote(message)


def _show_payloads(payloads: list[dict[str, Any]]) -> None:
    """The answer to ``object?``, meant for a pager: shown as output of the cell."""
    from IPython.display import publish_display_data

    for payload in payloads:
        if payload.get("source") == "page" and payload.get("data"):
            publish_display_data(payload["data"], {})


def _answer(content: dict[str, Any]) -> str:
    """The user's answer to input() or getpass() on the host."""
    prompt = content.get("prompt", "")
    return getpass.getpass(prompt) if content.get("password") else input(prompt)


class OperationDisplay:
    """An operation as one display that is updated."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown: tuple[str, float | None] | None = None

    def show(self, operation: Operation, line: str) -> None:
        if self._shown == (line, operation.progress):
            return
        self._shown = (line, operation.progress)
        bundle = {"text/plain": _plain(operation, line), "text/html": _html(operation, line)}
        if self._handle is None:
            from IPython.display import display

            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def _plain(operation: Operation, line: str) -> str:
    return line if operation.progress is None else f"[{operation.progress:4.0%}] {line}"


def _html(operation: Operation, line: str) -> str:
    escaped = html.escape(line)
    value = "" if operation.progress is None else f' value="{operation.progress:.3f}"'
    bar = f'<progress max="1"{value} aria-label="{escaped}"></progress> '
    return (bar if operation.state == "running" else "") + f"<span>{escaped}</span>"


def _line_of(operation: Operation) -> tuple[Operation, str]:
    """What is shown of it: its step, and in the end only how it ended."""
    from msgspec import structs

    from ..commands.operations import activity, progress_line

    if operation.state == "running":
        return operation, progress_line(operation)
    line = f"{activity(operation)}: {operation.state}"
    return structs.replace(operation, progress=None), line[:1].upper() + line[1:]


def wait_for(session: Session, operation: Operation) -> None:
    """Waits for an operation, shown as one display that is updated; raises what it failed with."""
    from ..commands.operations import left_running, raise_failure
    from ..fleet.client import wait_for_end
    from ..links import core_thread

    states: queue.SimpleQueue[tuple[Operation, str] | None] = queue.SimpleQueue()

    async def watch() -> Operation:
        try:
            return await wait_for_end(
                session.fleet, operation, lambda now: states.put(_line_of(now))
            )
        finally:
            states.put(None)

    display = OperationDisplay()
    future = core_thread().submit(watch())
    try:
        while (state := states.get()) is not None:
            display.show(*state)
        raise_failure(future.result())
    except KeyboardInterrupt:
        raise MagicError(left_running(session, operation)) from None
    finally:
        future.cancel()

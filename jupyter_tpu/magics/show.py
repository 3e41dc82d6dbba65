"""Puts a remote kernel's messages, and an operation's progress, into the local notebook."""

from __future__ import annotations

import getpass
import html
import sys
from typing import Any

from ..fleet.models import Operation
from .comms import Comms
from .remote import RemoteKernel


class RemoteError(Exception):
    """What a cell raised on the host; the class of each has the name of the exception there."""

    def __init__(self, value: str, traceback: list[str]) -> None:
        super().__init__(value)
        self._traceback = traceback

    def _render_traceback_(self) -> list[str]:
        """Called by IPython: the host's own traceback instead of ours."""
        return self._traceback


class MagicError(Exception):
    """What a user should read: one sentence and no traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def run_cell(kernel: RemoteKernel, comms: Comms, code: str, *, allow_stdin: bool) -> None:
    """Runs *code* there and shows what comes, as a local cell would. Raises :class:`RemoteError`.

    The first interrupt interrupts the remote kernel, whose answer is then waited for; the second
    one stops waiting.
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
                kernel.answer(_asked(message["content"]))
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
        raise MagicError("The cell was not run: the kernel there was interrupted before it.")
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
    """What ``object?`` answers goes to a pager, which a cell's output stands in for."""
    from IPython.display import publish_display_data

    for payload in payloads:
        if payload.get("source") == "page" and payload.get("data"):
            publish_display_data(payload["data"], {})


def _asked(content: dict[str, Any]) -> str:
    """The user's answer to input() or getpass() on the host."""
    prompt = content.get("prompt", "")
    return getpass.getpass(prompt) if content.get("password") else input(prompt)


class OperationDisplay:
    """An operation as one display that is updated."""

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown: tuple[str, float | None] | None = None

    def show(self, operation: Operation, words: str) -> None:
        if self._shown == (words, operation.progress):
            return
        self._shown = (words, operation.progress)
        bundle = {"text/plain": _plain(operation, words), "text/html": _html(operation, words)}
        if self._handle is None:
            from IPython.display import display

            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def _plain(operation: Operation, words: str) -> str:
    return words if operation.progress is None else f"[{operation.progress:4.0%}] {words}"


def _html(operation: Operation, words: str) -> str:
    said = html.escape(words)
    value = "" if operation.progress is None else f' value="{operation.progress:.3f}"'
    bar = f'<progress max="1"{value} aria-label="{said}"></progress> '
    return (bar if operation.state == "running" else "") + f"<span>{said}</span>"

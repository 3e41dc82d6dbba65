"""Calls the functions of our programs on hosts.

Each result is checked before anyone sees it. Text is bounded by the size of an answer.
docs/reference/security.md has what may be answered as a table.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta

from ..errors import ConnectionLost, Reason, TPUError, error_for
from ..on_host.packing import program
from ..ssh.host_program import COMMAND, NO_PYTHON
from ..ssh.host_values import InvalidAnswer, Text, Word, checked, decoded
from .remote_host import RemoteHost

#: Attempts of what continues where it stopped: a host may restart, or a link be cut, meanwhile.
MOST_ATTEMPTS = 3
_AGAIN = "Try again. It continues where it stopped."

Port = Annotated[int, Meta(ge=1, le=65535)]

#: Why a function failed: a reason, a message and a hint.
HostError = tuple[Word, Text, Text]


class Said(TypedDict):
    """A line of a program's output: a log line, its progress, or how its function ended."""

    log: NotRequired[Text]
    part: NotRequired[Annotated[float, Meta(ge=0, le=1)]]
    result: NotRequired[Any]
    error: NotRequired[Any]


class FailedCall(TypedDict):
    error: HostError


class Nothing(TypedDict):
    """Functions that only do something."""


class NoSuchPython(Exception):
    """uv can't download the Python version that is wanted. The caller knows which ones exist."""


class HostProgram:
    """A program of ours whose functions can be called on hosts.

    Parameters
    ----------
    main: the module with the functions, as `packing.program` takes it.
    answers: the type of each function's result.
    """

    def __init__(self, main: str, answers: Mapping[str, Any]) -> None:
        self.main = main
        self.answers = answers

    async def call(
        self,
        host: RemoteHost,
        function: str,
        *,
        log: Callable[[str], None] = lambda line: None,
        part: Callable[[float], None] = lambda part: None,
        timeout: float,
        attempts: int = 1,
        **arguments: Any,
    ) -> Any:
        """The function's result.

        Parameters
        ----------
        log: receives the function's log lines.
        part: receives its progress, 0 to 1.
        timeout: seconds, of one attempt.
        attempts: how often the function is called, while the connection is lost in the middle of
            it. Its call ends with the connection, so more than one is for a function that
            continues.

        Raises TPUError: NO_PYTHON, DISK_FULL, ENVIRONMENT, TIMEOUT, UNREACHABLE, `InvalidAnswer` if
        it is not as declared; `NoSuchPython`.
        """
        where = f"host {host.host.number}"
        answer: dict[str, Any] = {}

        def on_line(line: str) -> None:
            try:
                payload = checked(
                    decoded(line.encode("utf-8", "replace"), function), Said, function
                )
            except InvalidAnswer:
                payload = {"log": line}
            if "log" in payload:
                log(f"{where}: {payload['log']}")
            elif "part" in payload:
                part(payload["part"])
            else:
                answer.update(payload)

        request = json.dumps({"call": function, **arguments}).encode()
        while True:
            attempts -= 1
            try:
                completed = await host.run(
                    COMMAND,
                    input=program(self.main) + request,
                    timeout=timeout,
                    on_line=on_line,
                    check=False,
                )
                break
            except ConnectionLost as error:
                if attempts < 1:
                    raise TPUError(error.message, error.reason, _AGAIN) from error
                log(
                    f"{where}: the connection was lost. This continues when the host can be reached"
                )
                answer.clear()
        if completed.returncode == NO_PYTHON:
            raise TPUError(
                f"There is no Python 3.8 or newer on {where}.",
                Reason.NO_PYTHON,
                "Install one there (`sudo apt-get install python3`), or use a runtime version that "
                "has it.",
            )
        if "error" in answer:
            reason, message, hint = checked(answer, FailedCall, function)["error"]
            if reason == "NO_SUCH_PYTHON":
                raise NoSuchPython
            if reason == "PACKAGE":  # the same on every host
                raise TPUError(message, Reason.ENVIRONMENT, hint)
            raise error_for(f"On {where}: {message}", checked(reason, Reason, function), hint)
        if "result" not in answer:
            last = completed.stderr.strip().rstrip(".").splitlines()[-1:] or ["no output"]
            raise TPUError(
                f"On {where}, {function} ended with status {completed.returncode}: {last[0]}.",
                Reason.ENVIRONMENT,
                _AGAIN,
            )
        return checked(answer["result"], self.answers[function], function)

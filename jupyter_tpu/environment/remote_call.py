"""Calls the functions of ``on_host`` on a host."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ..errors import ConnectionLost, Reason, TPUError, error_for
from ..links.remote_host import RemoteHost
from ..on_host.packing import program
from ..ssh.host_program import COMMAND, NO_PYTHON
from ..ssh.host_values import InvalidAnswer, checked, decoded
from .host_answers import ANSWERS, Failed, Said

#: Attempts of what continues where it stopped: a host may restart, or a link be cut, meanwhile.
ATTEMPTS = 3
_AGAIN = "Try again. It continues where it stopped."


class NoSuchPython(Exception):
    """uv can't download the Python version that is wanted. The caller knows which ones exist."""


async def call(
    host: RemoteHost,
    function: str,
    *,
    log: Callable[[str], None] = lambda line: None,
    part: Callable[[float], None] = lambda part: None,
    timeout: float,
    attempts: int = 1,
    main: str = "environments.main",
    **arguments: Any,
) -> Any:
    """The function's result.

    Parameters
    ----------
    main: the program with the function, as `packing.program` takes it.
    log: receives the function's log lines.
    part: receives its progress, 0 to 1.
    timeout: seconds, of one attempt.
    attempts: how often the function is called, while the connection is lost in the middle of it.
        Its call ends with the connection, so more than one is for a function that continues.

    Raises TPUError: NO_PYTHON, DISK_FULL, ENVIRONMENT, TIMEOUT, UNREACHABLE, `InvalidAnswer` if it
    is not as `host_answers` says; `NoSuchPython`.
    """
    where = f"host {host.host.worker}"
    answer: dict[str, Any] = {}

    def on_line(line: str) -> None:
        try:
            payload = checked(decoded(line.encode("utf-8", "replace"), function), Said, function)
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
                input=program(main) + request,
                timeout=timeout,
                on_line=on_line,
                check=False,
            )
            break
        except ConnectionLost as error:
            if attempts < 1:
                raise TPUError(error.message, error.reason, _AGAIN) from error
            log(f"{where}: the connection was lost. This continues when the host can be reached")
            answer.clear()
    if completed.returncode == NO_PYTHON:
        raise TPUError(
            f"There is no Python 3.8 or newer on {where}.",
            Reason.NO_PYTHON,
            "Install one there (`sudo apt-get install python3`), or use a runtime version that "
            "has it.",
        )
    if "error" in answer:
        reason, message, hint = checked(answer, Failed, function)["error"]
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
    return checked(answer["result"], ANSWERS[function], function)

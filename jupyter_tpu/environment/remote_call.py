"""Calls the functions of ``on_host`` on a host."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from .. import agent
from ..bounds import convert
from ..errors import ConnectionLost, Reason, TPUError, error_for
from .host_program import COMMAND, NO_PYTHON, program
from .models import RemoteHost

#: What the agent and ``on_host`` share, and the modules of ``on_host``, in the order in which they
#: import each other.
SHARED = "chips", "process_env", "processes"
MODULES = (
    "protocol", "paths", "processes", "calls", "uv", "packages", "commands", "notebook", "jaxkit",
    "lock_file", "chip_holders", "hardware", "host_setup", "probe", "existing_pythons",
    "virtualenv", "pod", "doctor", "tensorboard", "shares",
)  # fmt: skip


@cache
def sources(modules: tuple[str, ...], shared: tuple[str, ...] = ()) -> bytes:
    """*modules* of ``on_host`` in the order in which they import each other, after those that are
    *shared* with the agent (of its protocol, or as ``metrics.NAME``); the last one has `main`.
    """
    own = files(__package__).joinpath("on_host")
    found = []
    for name in shared:
        folder, _, module = name.rpartition(".")
        found.append(
            (
                f"{agent.__name__}.{folder or 'protocol'}.{module}",
                files(agent).joinpath(folder or "protocol", f"{module}.py"),
            )
        )
    found += [(n, own.joinpath(f"{n}.py")) for n in modules]
    return program(found)


#: Attempts of what continues where it stopped: a host may restart, or a link be cut, meanwhile.
ATTEMPTS = 3
_AGAIN = "Try again. It continues where it stopped."


class NoSuchPython(Exception):
    """uv can't download the Python version that is wanted. The caller knows which ones exist."""


async def call(
    host: RemoteHost,
    function: str,
    *,
    log: Callable[[str], None],
    part: Callable[[float], None] = lambda part: None,
    timeout: float,
    attempts: int = 1,
    modules: tuple[str, ...] = (*MODULES, "main"),
    shared: tuple[str, ...] = SHARED,
    kind: Any = Any,
    **arguments: Any,
) -> Any:
    """The function's result, of the type *kind*.

    Parameters
    ----------
    modules, shared: of the program with the function, see :func:`sources`.
    log: receives the function's log lines.
    part: receives its progress, 0 to 1.
    timeout: seconds, of one attempt.
    attempts: how often the function is called, while the connection is lost in the middle of it.
        Its call ends with the connection, so more than one is for a function that continues.

    Raises TPUError: NO_PYTHON, DISK_FULL, ENVIRONMENT, TIMEOUT, UNREACHABLE; `NoSuchPython`.
    """
    where = f"host {host.host.worker}"
    answer: dict[str, Any] = {}

    def on_line(line: str) -> None:
        try:
            payload = json.loads(line)
        except (ValueError, RecursionError):
            payload = None
        if not isinstance(payload, dict):
            log(f"{where}: {line}")
        elif "log" in payload:
            log(f"{where}: {payload['log']}")
        elif "part" in payload:
            if isinstance(done := payload["part"], int | float) and 0 <= done <= 1:
                part(float(done))
        else:
            answer.update(payload)

    request = json.dumps({"call": function, **arguments}).encode()
    while True:
        attempts -= 1
        try:
            completed = await host.run(
                COMMAND,
                input=sources(modules, shared) + request,
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
        reason, message, hint = convert(answer["error"], tuple[str, str, str], where)
        if reason == "NO_SUCH_PYTHON":
            raise NoSuchPython
        if reason == "PACKAGE":  # the same on every host
            raise TPUError(message, Reason.ENVIRONMENT, hint)
        known = Reason(reason) if reason in Reason.__members__ else Reason.INTERNAL
        raise error_for(f"On {where}: {message}", known, hint)
    if "result" not in answer:
        last = completed.stderr.strip().rstrip(".").splitlines()[-1:] or ["no output"]
        raise TPUError(
            f"On {where}, {function} ended with status {completed.returncode}: {last[0]}.",
            Reason.ENVIRONMENT,
            _AGAIN,
        )
    return convert(answer["result"], kind, f"On {where}, {function}")

"""``python -m jupyter_tpu.kernels.launch -f FILE …``: a TPU kernel for clients that run commands.

VS Code does not support provisioners. It runs a kernelspec's ``argv`` and treats the process as the
kernel. So this process behaves like one: it binds the ports of the connection file, SIGINT
interrupts, SIGTERM ends, and it exits with the kernel or with its parent process. Its kernel lives
as long as it does, also while this machine sleeps. If it is killed, its kernel is ended when this
machine next reaches the host: no client can attach to it again.
"""

from __future__ import annotations

import argparse
import asyncio
import concurrent.futures
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, Literal, get_args, get_origin, get_type_hints

from msgspec import structs

from ..agent_token import require_person
from ..cloud import Target
from ..errors import TPUError
from ..links import HostName, core_thread, default_links
from ..session_key import session_variables
from ..tokens import passed_variables
from .config import KernelConfig
from .relay import KernelRelay


def main(argv: Sequence[str] | None = None) -> int:
    connection_file, variables, config = _parsed(argv)
    try:
        require_person(f"a kernel of {config.tpu} here")
    except TPUError as error:
        print(error, file=sys.stderr)
        return 1
    with open(connection_file, encoding="utf-8") as file:
        connection = json.load(file)
    relay = core_thread().wait(_relay(config, connection_file))
    request = _start_request(config, variables)
    running = core_thread().submit(_run(relay, connection, request, config.start_timeout))
    parent = os.getppid()

    def interrupt(*_: Any) -> None:
        core_thread().loop.call_soon_threadsafe(relay.signal, signal.SIGINT)

    def stop(*_: Any) -> None:
        running.cancel()

    signal.signal(signal.SIGINT, interrupt)
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), stop)
    code = 1
    try:
        code = _wait(running, parent)
    except concurrent.futures.CancelledError:
        code = 0
    except TPUError as error:
        print(error, file=sys.stderr)
    finally:
        core_thread().wait(relay.cleanup())
    return code


def _wait(running: concurrent.futures.Future[int], parent: int) -> int:
    """The kernel's exit code. Raises CancelledError if this process's parent exits first."""
    while True:
        try:
            return running.result(timeout=1.0)
        except concurrent.futures.TimeoutError:
            if running.done():  # its own error
                raise
            if os.getppid() != parent:
                running.cancel()


async def _relay(config: KernelConfig, connection_file: str) -> KernelRelay:
    target = Target(emulator=config.emulator, project=config.project, zone=config.zone)
    host = default_links(target).get(HostName(config.node, config.worker))
    name = os.path.basename(connection_file)
    return KernelRelay(
        host,
        os.path.splitext(name)[0].removeprefix("kernel-"),
        owned=True,
        notebook_folder=os.getcwd(),
        sync=config.project_sync,
    )


async def _run(
    relay: KernelRelay, connection: dict[str, Any], request: dict[str, Any], timeout: float
) -> int:
    await relay.launch(connection, request, timeout)
    code = await relay.wait_ended()
    if relay.problem is not None:
        print(relay.problem, file=sys.stderr)
    # Let the relay deliver the kernel's last messages.
    await asyncio.sleep(0.1)
    return code


def _start_request(config: KernelConfig, variables: Sequence[str]) -> dict[str, Any]:
    """variables: each as NAME=VALUE."""
    own = dict(variable.split("=", 1) for variable in variables)
    agents = config.of_agent
    passed = {**session_variables(agents=agents), **passed_variables(agents=agents)}
    return config.start_request({**passed, **own}, os.environ.get("JPY_SESSION_NAME", ""))


def _parsed(argv: Sequence[str] | None) -> tuple[str, list[str], KernelConfig]:
    """The connection file, the environment variables of the kernel, and its place and options."""
    parser = argparse.ArgumentParser(
        prog="python -m jupyter_tpu.kernels.launch", description=__doc__.splitlines()[0]
    )
    exists = "the connection file; it must exist"
    parser.add_argument("-f", dest="connection_file", required=True, help=exists)
    parser.add_argument(
        "--variable",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an environment variable for the kernel",
    )
    hints = get_type_hints(KernelConfig, include_extras=True)
    for field in structs.fields(KernelConfig):
        hint = hints[field.name]
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            required=field.required,
            default=argparse.SUPPRESS,
            help=hint.__metadata__[-1].extra["option"].text,
            **_typed(hint),
        )
    given = vars(parser.parse_args(argv))
    file, variables = given.pop("connection_file"), given.pop("variable")
    for name, value in given.items():
        if hints[name].__origin__ is bool:
            given[name] = value == "yes"
    return file, variables, KernelConfig(**given)


def _typed(hint: Any) -> dict[str, Any]:
    """How a value of an annotated type is given."""
    kind = hint.__origin__
    if kind is bool:
        return {"choices": ["yes", "no"]}
    if get_origin(kind) is Literal:
        return {"choices": get_args(kind)}
    least = hint.__metadata__[0].ge

    def number(text: str) -> int:
        if not text.isdecimal() or (least is not None and int(text) < least):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least {least or 0}")
        return int(text)

    return {"type": number if kind is int else float if kind is float else str}


if __name__ == "__main__":
    sys.exit(main())

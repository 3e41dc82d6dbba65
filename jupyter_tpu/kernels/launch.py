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
from typing import Any

from ..agent_token import require_person
from ..cloud import NodeName, Target
from ..errors import TPUError
from ..links import HostName, core_thread, default_links
from ..tokens import passed_variables
from .relay import Relay
from .specs import JOURNAL_LIMIT, LEAST_JOURNAL, chip_numbers, slice_names


def main(argv: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(argv)
    try:
        require_person(f"a kernel of {options.tpu} here")
    except TPUError as error:
        print(error, file=sys.stderr)
        return 1
    with open(options.connection_file, encoding="utf-8") as file:
        connection = json.load(file)
    relay = core_thread().wait(_relay(options))
    running = core_thread().submit(_run(relay, connection, options))
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


async def _relay(options: argparse.Namespace) -> Relay:
    target = Target(emulator=options.emulator, project=options.project, zone=options.zone)
    node = NodeName(options.project, options.zone, options.tpu)
    host = default_links(target).get(HostName(node, options.worker))
    name = os.path.basename(options.connection_file)
    return Relay(
        host,
        os.path.splitext(name)[0].removeprefix("kernel-"),
        owned=True,
        notebook_folder=os.getcwd(),
        sync=options.project_sync,
    )


async def _run(relay: Relay, connection: dict[str, Any], options: argparse.Namespace) -> int:
    await relay.launch(connection, _start_request(options), options.start_timeout)
    code = await relay.wait_ended()
    if relay.problem is not None:
        print(relay.problem, file=sys.stderr)
    # Let the relay deliver the kernel's last messages.
    await asyncio.sleep(0.1)
    return code


def _start_request(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "python": options.host_python,
        "environment": options.environment,
        "tpu": options.tpu,
        "zone": options.zone,
        "worker": options.worker,
        "needs_chips": options.needs_chips == "yes",
        "chips": chip_numbers(options.chips),
        **({"pod": {"slices": slice_names(options.slices)}} if options.hosts else {}),
        "journal_limit": options.journal_limit,
        "when_full": options.when_full,
        "cwd": options.folder,
        "env": {
            **passed_variables(agents=options.of_agent == "yes"),
            **dict(variable.split("=", 1) for variable in options.variable),
        },
        "notebook": os.environ.get("JPY_SESSION_NAME", ""),
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m jupyter_tpu.kernels.launch", description=__doc__.splitlines()[0]
    )
    add = parser.add_argument
    add("-f", dest="connection_file", required=True, help="the connection file; it must exist")
    add("--project", required=True)
    add("--zone", required=True)
    add("--tpu", required=True, help="the TPU's node name")
    add("--worker", type=int, default=0, help="the host's number (default: 0)")
    add("--environment", default="default")
    add("--host-python", required=True, help="the environment's Python on the host")
    add(
        "--variable",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an environment variable for the kernel",
    )
    add(
        "--of-agent",
        choices=["yes", "no"],
        default="no",
        help="yes: pass only the tokens that are for coding agents (default: no)",
    )
    add("--emulator", help="the state file of the emulator that runs the TPU")
    add(
        "--folder",
        default="~",
        help="the kernel's working directory on the host (default: that of the notebook's project, "
        "else ~)",
    )
    add(
        "--project-sync",
        default="",
        metavar="auto|off|DIR",
        help="what is copied to the host before each cell (default: $JUPYTER_TPU_PROJECT_SYNC, "
        "else auto: the notebook's project)",
    )
    add(
        "--needs-chips",
        choices=["yes", "no"],
        default="yes",
        help="no: start it even while another process holds the TPU's chips (default: yes)",
    )
    add(
        "--chips",
        default="",
        metavar="N[,N...]",
        help="the chips of the host that only this kernel uses (default: all chips, shared with "
        "other kernels)",
    )
    add(
        "--slices",
        default="",
        metavar="TPU[,TPU]",
        help="with --hosts: other TPUs that it runs on, too, as slices of one job",
    )
    add(
        "--hosts",
        type=int,
        default=0,
        metavar="N",
        help="more than 0: run each cell on all hosts of the TPU",
    )
    add(
        "--journal-limit",
        type=_limit,
        default=JOURNAL_LIMIT,
        metavar="BYTES",
        help="bytes of unread output that the host stores (default: 2 GiB)",
    )
    add(
        "--when-full",
        choices=["pause", "drop"],
        default="pause",
        help="at this limit: pause the kernel, or drop the oldest output (default: pause)",
    )
    add(
        "--start-timeout",
        type=float,
        default=60.0,
        metavar="S",
        help="seconds to wait for the host (default: 60)",
    )
    return parser


def _limit(text: str) -> int:
    if not text.isdecimal() or int(text) < LEAST_JOURNAL:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of at least {LEAST_JOURNAL}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())

"""``jupyter tpu emulator``: Cloud TPU on this machine, in the foreground."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import TPUError
from ..terminal.grammar import command, examples

if TYPE_CHECKING:
    from ..emulator import EmulatorState


@command("emulator", epilog=examples("jupyter tpu emulator --state ./tpu-emulator"))
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="PORT",
    help="Port of the REST API; 0 for any free port.",
)
@click.option(
    "--state",
    metavar="DIR",
    help="The folder of its TPUs.  [default: a folder in jupyter-tpu's data folder]",
)
@click.option(
    "--env",
    is_flag=True,
    help="Also print the export lines that point gcloud and jupyter-tpu at it. If it is already "
    "running, print only them.",
)
def emulator(port: int, state: str | None, env: bool) -> None:
    """Run an emulator of Cloud TPU on this computer, until Ctrl-C."""
    import asyncio

    from ..emulator import default_state_dir

    folder = Path(state).expanduser().absolute() if state else default_state_dir()
    if env and _print_environment_of(folder):
        return
    asyncio.run(_serve(folder, port, env))


def _print_environment_of(folder: Path) -> bool:
    """The export lines of the emulator that runs in *folder*, for ``eval "$(… --env)"``."""
    from ..emulator import EmulatorState, environment_lines, state_file

    try:
        state = EmulatorState.read(state_file(folder))
        os.kill(state.pid, 0)
    except (TPUError, OSError):
        return False  # none runs, or one that was killed left its file
    print("\n".join(environment_lines(state)))
    return True


async def _serve(folder: Path, port: int, env: bool) -> None:
    import asyncio
    import contextlib
    import signal

    from ..emulator import environment_lines, serve

    def ready(state: EmulatorState) -> None:
        print(f"emulator ready: {state.rest}")
        print(f"token file: {state.token_file}")
        print(f"state file: {state.path}")
        if env:
            print("\n".join(environment_lines(state)))
        for part in state.skipped:
            print(f"not emulated here: {part}")
        print("Press Ctrl-C to stop it and the hosts of its TPUs.", flush=True)

    serving = asyncio.ensure_future(serve(folder, port=port, on_ready=ready))
    loop = asyncio.get_running_loop()
    stopping = False

    def stop() -> None:
        nonlocal stopping
        if not stopping:  # a second Ctrl-C must not interrupt the hosts' shutdown
            stopping = serving.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    print("emulator ended", flush=True)
    for number in (signal.SIGINT, signal.SIGTERM):  # it exits with 0 also if asked again
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)

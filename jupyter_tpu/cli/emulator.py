"""``jupyter tpu emulator``: Cloud TPU on this machine, in the foreground."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Reason, TPUError

if TYPE_CHECKING:
    from ..emulator import EmulatorState


def emulator(chosen: argparse.Namespace) -> None:
    """Runs until Ctrl-C or SIGTERM; all emulated hosts end with it."""
    from ..emulator import default_state_dir

    if not 0 <= chosen.port <= 65535:
        raise TPUError(f"{chosen.port} is not a port.", Reason.INVALID, "Take one of 1–65535.")
    folder = Path(chosen.state).expanduser().absolute() if chosen.state else default_state_dir()
    if chosen.env and _print_environment_of(folder):
        return
    asyncio.run(_serve(folder, chosen.port, chosen.env))


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
    from ..emulator import environment_lines, serve

    def ready(state: EmulatorState) -> None:
        print(f"emulator ready: {state.rest}")
        print(f"token file: {state.token_file}")
        print(f"state file: {state.path}")
        if env:
            print("\n".join(environment_lines(state)))
        for part in state.skipped:
            print(f"not emulated here: {part}")
        print("Ctrl-C ends it, and the hosts of its TPUs.", flush=True)

    serving = asyncio.ensure_future(serve(folder, port=port, on_ready=ready))
    loop = asyncio.get_running_loop()
    ending = False

    def end() -> None:
        nonlocal ending
        if not ending:  # a second Ctrl-C must not cut the hosts' ending short
            ending = serving.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end)
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    print("emulator ended", flush=True)
    for number in (signal.SIGINT, signal.SIGTERM):  # it ends well, also if that is asked again
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)

"""The order of messages to a kernel: each waits for the ones sent before it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .failures import MagicError

if TYPE_CHECKING:
    from .remote import RemoteKernel


def wait_for_turn(kernel: RemoteKernel) -> None:
    """Returns when the kernel has done what it was sent before.

    What is sent then can be interrupted without interrupting another cell.
    """
    run = kernel.unfinished()
    if run is None:
        return
    try:
        print(f"Waiting for the cell that runs on {kernel.tpu} …", file=sys.stderr)
        while run is not None:
            if run.wait():
                run = kernel.unfinished()
    except KeyboardInterrupt:
        raise MagicError(
            f"This cell did not start. The one before it still runs on {kernel.tpu}."
        ) from None

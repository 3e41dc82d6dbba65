"""Whether a kernel can have the chips that it needs, before it is started."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any, Dict, List, Optional

from ..protocol.chips import chip_devices, chips, holders
from ..protocol.chosen_chips import chip_variables, devices_by_chip, problem_of
from ..protocol.records import Kernel
from ..protocol.requests import StartKernel
from .chip_errors import booked_by, held_by, without_driver
from .handlers import OperationError
from .keepers import Keepers
from .owners import ProcessOwners

#: Seconds for which a start waits for chips that another process holds.
RELEASE = 3.0


def chosen_by(request: StartKernel, environment: Dict[str, str]) -> Optional[List[int]]:
    """The chips that the requested kernel books: [] means all,
    together with others; None: it does not use the chips, or shares them on purpose.

    Chosen ones are put into its *environment*. Raises OperationError for a wrong choice.
    """
    chosen = request.chips
    if chosen:
        count, generations = len(devices_by_chip()), chips()
        problem = problem_of(chosen, count)
        if problem:
            raise OperationError(
                "INVALID",
                "A kernel can't use the chips %s. %s" % (", ".join(map(str, chosen)), problem),
                "`jupyter tpu chips split %s` creates kernels with valid chips."
                % (request.tpu or "TPU"),
            )
        generation = generations[0] if generations else ""
        environment.update(chip_variables(chosen, count, generation, os.environ))
        return chosen
    return [] if request.needs_chips and not _ignores_chips(environment) else None


def _ignores_chips(environment: Dict[str, str]) -> bool:
    """Whether a kernel with these variables does not use the chips, or shares them on purpose."""
    if environment.get("JAX_PLATFORMS") == "cpu":
        return True
    for name in ("TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES"):
        if name in environment:
            return len(environment[name].split(",")) < len(chip_devices())
    return False


class ChipChecks:
    """Looks at what the keepers have booked, and at what holds the chips of this host."""

    def __init__(self, keepers: Keepers, owners: ProcessOwners) -> None:
        self._keepers = keepers
        self._owners = owners

    async def wait(self, requested: Optional[List[int]], tpu: str) -> None:
        """Returns when a kernel can have the chips *requested* (see `chosen_by`).

        Raises OperationError: after a while if a process holds them, which may be about to end;
        at once if a kernel has booked them, or if they can't be used at all.
        """
        if requested is None:
            return
        if not chip_devices() and chips():
            raise without_driver(tpu)
        deadline = time.monotonic() + RELEASE
        while True:
            statuses = await self._keepers.statuses()
            require_unbooked(statuses, requested, tpu)
            held = await self._held(statuses, requested)
            if not held:
                return
            if time.monotonic() > deadline:
                raise held_by(held[0], tpu)
            await asyncio.sleep(0.1)

    async def _held(self, statuses: List[Kernel], requested: List[int]) -> List[Any]:
        """The holders of the chips *requested*, but for kernels that have booked others."""
        held = holders()
        if not held:
            return []
        held = await self._owners.name(held, statuses)
        if not requested:
            return held
        others = {status["id"] for status in statuses if status.get("booked")}
        devices = devices_by_chip()
        files = set().union(*(devices[chip] for chip in requested))
        return [
            holder
            for holder in held
            # Where only the lock is known, it is that of all chips.
            if (not holder["devices"] or files & set(holder["devices"]))
            and holder["kernel"] not in others
        ]


def require_unbooked(statuses: List[Kernel], requested: List[int], tpu: str) -> None:
    """Raises OperationError if a kernel, of which *statuses* has that of the keeper, has booked
    chips that a kernel with the chips *requested* can't share.
    """
    for status in statuses:
        booked = status.get("booked")
        if status["state"] != "dead" and booked is not None and _conflict(requested, booked):
            raise booked_by(status, requested, tpu)


def _conflict(requested: List[int], booked: List[int]) -> bool:
    if requested and booked:
        return bool(set(requested) & set(booked))
    return bool(requested or booked)

"""Whether a kernel can have the chips that it needs, and why it is not started otherwise."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any, Dict, List, Optional

from ..protocol.chips import chip_devices, chips, holders
from ..protocol.chosen_chips import chip_variables, devices_by_chip, named, problem_of
from ..protocol.processes import origin
from ..protocol.records import KernelReport
from ..protocol.requests import StartKernelRequest
from .handlers import OperationError
from .keepers import Keepers
from .owners import ProcessOwners


def without_driver(tpu: str) -> OperationError:
    """The chips of the TPU *tpu* can't be used on this host."""
    return OperationError(
        "CPU_FALLBACK",
        "The chips of %s have no device files, so JAX would use the CPU." % tpu,
        "Create the TPU again with its type's default runtime version. `jupyter tpu doctor %s` "
        "checks its hosts." % tpu,
    )


def booked_by(kernel: KernelReport, chips: List[int], tpu: str) -> OperationError:
    """The *kernel*, a keeper's status, was started with some of *chips* ([]: all)."""
    notebook = os.path.basename(kernel["notebook"] or "")
    who = "the kernel %s" % ("of %s" % notebook if notebook else kernel["id"])
    has = "with %s" % named(kernel["booked"]) if kernel["booked"] else "for all chips"
    return OperationError(
        "CHIPS_HELD",
        "%s in use by %s, which was started %s." % (_these(chips, tpu), who, has),
        "Shut down that kernel in the TPU panel, or with `jupyter tpu kernel stop %s %s`."
        % (tpu, kernel["id"]),
    )


def booked_meanwhile(chips: List[int], tpu: str) -> OperationError:
    """A kernel that was started at the same time got some of *chips*."""
    message = "%s in use by a kernel that was started at the same time." % _these(chips, tpu)
    return OperationError("CHIPS_HELD", message, "`jupyter tpu kernel list %s` shows it." % tpu)


def _these(chips: List[int], tpu: str) -> str:
    if not chips:
        return "The chips of %s are" % tpu
    name = named(chips)
    return "%s of %s %s" % (name[:1].upper() + name[1:], tpu, "is" if len(chips) == 1 else "are")


def held_by(holder: Dict[str, Any], tpu: str) -> OperationError:
    """*holder*, as from `ProcessOwners.name`, has them."""
    process = origin(holder["pid"])
    who = "process %d of %s" % (holder["pid"], holder["user"])
    if process["container"]:
        who += " in a container"
    if process["since"] is not None:
        who += time.strftime(" since %Y-%m-%d %H:%M UTC", time.gmtime(process["since"]))
    who += ": %s" % holder["command"]
    hint = "`jupyter tpu chips free %s` ends what uses them, after a question." % tpu
    if holder["kernel"]:
        notebook = os.path.basename(holder["notebook"])
        kernel = "of %s" % notebook if notebook else holder["kernel"]
        who = "the kernel %s (%s)" % (kernel, who)
        hint = "Shut down that kernel in the TPU panel, or with `jupyter tpu kernel stop %s %s`."
        hint %= tpu, holder["kernel"]
    elif holder["job"]:
        who = "the job %s (%s)" % (holder["job"], who)
        hint = "Stop it, or wait until it ends: `jupyter tpu job stop %s %s`."
        hint %= tpu, holder["job"]
    elif holder["run"]:
        who = "a command that `jupyter tpu run` started (%s)" % who
    return OperationError("CHIPS_HELD", "The chips of %s are in use by %s." % (tpu, who), hint)


#: Seconds for which a start waits for chips that another process holds.
RELEASE_SECONDS = 3.0


def chosen_by(request: StartKernelRequest, environment: Dict[str, str]) -> Optional[List[int]]:
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
            return len(environment[name].split(",")) < len(devices_by_chip())
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
        deadline = time.monotonic() + RELEASE_SECONDS
        while True:
            statuses = await self._keepers.statuses()
            require_unbooked(statuses, requested, tpu)
            held = await self._held(statuses, requested)
            if not held:
                return
            if time.monotonic() > deadline:
                raise held_by(held[0], tpu)
            await asyncio.sleep(0.1)

    async def _held(self, statuses: List[KernelReport], requested: List[int]) -> List[Any]:
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


def require_unbooked(statuses: List[KernelReport], requested: List[int], tpu: str) -> None:
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

"""Attaching machines that are reached by SSH alone, and forgetting them."""

from __future__ import annotations

import asyncio
import contextlib
import re

from msgspec import structs

from ...cloud import AttachedMachines, NodeName, attached_name, is_attached
from ...concurrency import gather_or_cancel
from ...environment import StepPlan
from ...errors import InvalidInput, Reason, TPUError
from ...retired import refuse_tpu_node_address
from ..core.core import Core
from ..core.running_operation import OperationProgress
from ..forwarding.apps import TensorBoardService
from ..jobs.job_records import FINAL
from ..kernels.kernels import shut_down_error
from ..models import TPU, AttachMachine, DetachMachine, Job, MachineCheck, MachineHost, Operation
from ..models.core import validated
from . import machines
from .belongings import RunningWork
from .power import CANCEL_CONNECT

#: Seconds to wait for the first list of TPUs.
_LIST_LIMIT = 10.0


class AttachedService:
    """The fleet's part ``attached``."""

    def __init__(
        self,
        core: Core,
        work: RunningWork,
        tensorboard: TensorBoardService,
    ) -> None:
        self._machines = AttachedMachines()
        self._finder = core.finder
        self._observer = core.observer
        self._connected = core.connected
        self._work = work
        self._tensorboard = tensorboard
        self._runner = core.runner
        self._shown = core.tpus.tpu
        self._attaching = asyncio.Lock()

    async def check(self, request: AttachMachine) -> MachineCheck:
        request = _valid(request)
        name = _name(request)
        return MachineCheck(
            name=name,
            hosts=[
                MachineHost(
                    ssh=user_host.alias,
                    address=user_host.address,
                    port=user_host.port,
                    user=user_host.user,
                    host_key=shown.fingerprint,
                    known=shown.known,
                )
                for user_host, shown in await machines.inspect_machines(request)
            ],
        )

    async def attach(self, request: AttachMachine) -> TPU:
        request = _valid(request)
        name = _name(request)
        async with self._attaching:  # pressed twice: the second one finds it
            there = await asyncio.to_thread(self._machines.find, name)
            if there is None:
                await self._require_free(name)
                there = await machines.attach(name, request, self._machines)
        ordered = all(host.number is not None for host in there.hosts)  # by Google, not by the user
        aliases = sorted(request.ssh) if ordered else request.ssh
        if aliases != (sorted(there.aliases) if ordered else there.aliases):
            raise TPUError(
                f"The name {name} is already used for {', '.join(there.aliases)}.",
                Reason.EXISTS,
                f"Choose another name with --name, or run `jupyter tpu detach {name}` first.",
            )
        self._observer.upsert(there.node)
        return self._shown(attached_name(name))

    async def detach(self, ref: str, options: DetachMachine | None = None) -> Operation:
        options = validated(options or DetachMachine())
        name = await self._finder.find(ref)
        if not is_attached(name):
            raise TPUError(
                f"{name.node} is a Cloud TPU, not an attached machine.",
                Reason.CONFLICT,
                "`jupyter tpu disconnect` removes its kernels from Jupyter, and `jupyter tpu "
                "delete` deletes it.",
            )
        await self._work.require_confirmation(
            name, "Detaching", end_kernels=options.end_kernels, end_jobs=options.end_jobs
        )
        await self._runner.cancel_connects(name, CANCEL_CONNECT)
        return await self._runner.start_exclusive(
            self._runner.new_record("detach", name), lambda progress: self._detach(name, progress)
        )

    # ---- attaching -------------------------------------------------------------------------

    async def _require_free(self, name: str) -> None:
        """A name of a TPU would be ambiguous from then on. Raises EXISTS."""
        with contextlib.suppress(TimeoutError):  # a machine needs no cloud that answers
            async with asyncio.timeout(_LIST_LIMIT):
                await self._observer.ensure_recent()
        others = [node for node in self._observer.observed.nodes if not is_attached(node)]
        if same := [other for other in others if other.node == name]:
            raise TPUError(
                f"{name} is the name of a TPU in {same[0].zone}.",
                Reason.EXISTS,
                "Choose another name for the machine, with --name.",
            )

    # ---- detaching -------------------------------------------------------------------------

    async def _detach(self, name: NodeName, progress: OperationProgress) -> None:
        progress.plan(
            [
                StepPlan("kernels", "Shut down kernels", 1),
                StepPlan("jobs", "Stop jobs", 1),
                StepPlan("forget", "Forget the machine", 1),
            ]
        )
        why = shut_down_error(f"detach {name.node}", "Choose the kernel of another TPU.")
        await self._work.shut_down_kernels(name, why, progress)
        await self._tensorboard.stop(name)
        progress.begin("jobs")
        await self._stop_jobs(name, progress)
        progress.done("jobs")
        progress.begin("forget")
        self._connected.forget(name)
        await asyncio.to_thread(self._machines.remove, name.node)
        self._observer.remove(name)
        progress.done("forget")

    async def _stop_jobs(self, name: NodeName, progress: OperationProgress) -> None:
        """Says of each job that is not known to have ended that it may continue."""
        ref = f"{name.zone}~{name.node}"
        jobs = self._work.jobs
        running = [job for job in await jobs.list(ref) if not job.over]

        async def stop(job: Job) -> None:
            hosts = (await jobs.stop(ref, job.id)).attempts[-1].hosts
            for host in hosts:
                which = f"{job.name} ({job.id})"
                if len(hosts) > 1:
                    which += f" on host {host.host}"
                if host.state == "stopping":
                    progress.log(f"The machine is stopping {which}")
                elif host.state not in FINAL:
                    progress.log(f"{which} may still run: {host.cause}")

        await gather_or_cancel([stop(job) for job in running])


def _valid(request: AttachMachine) -> AttachMachine:
    request = validated(request)
    for number, alias in enumerate(request.ssh):
        refuse_tpu_node_address(alias)
        if alias in request.ssh[:number]:
            raise InvalidInput(f"{alias} is listed twice.", "List each machine once.")
    return request


def _name(request: AttachMachine) -> str:
    """The name here; of "me@Box.example.com" alone that is "box"."""
    if request.name is not None:
        return request.name
    if len(request.ssh) > 1:
        raise InvalidInput("Several machines need a name.", "Choose one with --name.")
    (alias,) = request.ssh
    short = alias.rpartition("@")[2].lower()
    if not re.fullmatch(r"[\d.]+", short):
        short = short.partition(".")[0]
    short = re.sub(r"[^a-z0-9]+", "-", short).strip("-")
    try:
        return validated(structs.replace(request, name=short)).name or short
    except InvalidInput:
        raise InvalidInput(
            f"{alias!r} can't be made into a TPU name.", "Choose one with --name."
        ) from None

"""What is asked of the fleet about kernels, and done with them; a part of :class:`Fleet`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import msgspec

from ..cloud import NodeName
from ..errors import Reason, TPUError
from ..links import HostGone
from .models import Change, ChipHolder, Environment, KeepWarm, Kernel, Problem
from .models.requests import validated
from .operations import checks
from .references import resolve
from .state import State

#: How long a TPU is asked for its kernels before it is taken as unreachable; seconds.
ASK_KERNELS = 10.0


class FleetKernels:
    """The kernels on the fleet's TPUs."""

    #: Makes this process the master of a kernel: its id, kernelspec, key and notebook.
    take_over: Callable[[str, str, str, str], Awaitable[None]] | None = None
    _state: State

    async def _find(self, ref: str) -> NodeName:
        return await resolve(ref, self._state)

    async def kernels(self, ref: str) -> list[Kernel]:
        name = await self._find(ref)
        if not self._state.environments.get(name):
            return []  # never connected: no kernel of ours can be there
        if self._state.tpu(name).state != "READY":
            return self._state.kernels.known(name)  # there is nobody to ask
        try:
            return await self._state.kernels.fetch(name)
        except HostGone:  # it is no longer READY; the link learned it first
            return self._state.kernels.known(name)

    async def chips(self, ref: str) -> list[ChipHolder]:
        name = await self._find(ref)
        if not self._state.environments.get(name):
            raise TPUError(
                f"{name.node} was never connected, so it can't be asked.",
                Reason.CONFLICT,
                "Connect it first.",
            )
        return await self._state.kernels.chips(name)

    async def notify_chip_holders(self, where: dict[str, str], problem: TPUError) -> None:
        """A kernel was not started because others hold the chips of its TPU: tells of those that
        could be shut down for it. *where* as for :meth:`report_lost_kernel`.
        """
        name = NodeName(where["project"], where["zone"], where["tpu"])
        for kernel in await self._state.kernels.fetch(name):
            if kernel.chips:
                kernel = msgspec.structs.replace(kernel, problem=Problem.of(problem))
                self._state.changes.publish(Change(what="kernel", id=kernel.id, kernel=kernel))

    async def report_lost_kernel(
        self, id: str, where: dict[str, str], notebook: str, problem: TPUError
    ) -> None:
        """A kernel of this process is dead, and why: it is shown until somebody has seen it.

        where: its ``project``, ``zone``, ``tpu`` and ``environment``.
        """
        name = NodeName(where["project"], where["zone"], where["tpu"])
        self._state.kernels.record_lost(
            name,
            Kernel(
                id=id,
                tpu=name.node,
                zone=name.zone,
                environment=where["environment"],
                state="dead",
                notebook=notebook,
                problem=Problem.of(problem),
            ),
        )

    async def end_kernel(self, ref: str, id: str) -> None:
        name = await self._find(ref)
        if self._state.kernels.dismiss_lost(name, id):
            return
        if id not in {kernel.id for kernel in await self.kernels(ref)}:
            raise TPUError(f"There is no kernel {id!r} on {name.node}.", Reason.NOT_FOUND)
        await self._state.kernels.end(name, id)
        await self._state.kernels.fetch(name)

    async def keep_warm(self, ref: str, environment: str, how: KeepWarm) -> Environment:
        name = await self._find(ref)
        how = validated(how)
        checks.modules(how.imports)
        record = self._state.environments.get(name, {}).get(environment)
        if record is None:
            there = ", ".join(self._state.environments.get(name, {})) or "none"
            raise TPUError(
                f"{name.node} has no environment {environment}; it has {there}.",
                Reason.NOT_FOUND,
            )
        record.warm = how
        self._state.save(name, record)
        self._state.warm.wake()
        environments = self._state.tpu(name).environments
        return next(each for each in environments if each.name == environment)

    async def take_over_kernel(self, ref: str, id: str) -> None:
        name = await self._find(ref)
        if self.take_over is None:
            raise TPUError(
                "There is no Jupyter server here that could take a kernel.",
                Reason.CONFLICT,
                "Start one, and try again.",
            )
        found = {kernel.id: kernel for kernel in await self.kernels(ref)}.get(id)
        if found is None or found.state == "dead":
            raise TPUError(f"There is no kernel {id!r} on {name.node}.", Reason.NOT_FOUND)
        record = self._state.environments[name].get(found.environment)
        if record is None or not record.environment.kernelspec:
            raise TPUError(
                f"The kernel's environment {found.environment} is not connected here.",
                Reason.CONFLICT,
                f"Connect it first: `jupyter tpu connect {name.node} --env {found.environment}`.",
            )
        key = await self._state.kernels.key(name, id)
        await self.take_over(id, record.environment.kernelspec, key, found.notebook)
        self._state.kernels.wake()

    async def _may_end_kernels(self, name: NodeName, allowed: bool, doing: str) -> None:
        """Raises KERNELS_RUNNING if there are kernels and ending them is not *allowed*.

        A TPU that does not answer counts with what it had when it last did.
        """
        state = self._state
        if allowed or not state.environments.get(name):
            return
        running = state.kernels.known(name)
        if state.tpu(name).state == "READY":
            with contextlib.suppress(TPUError, asyncio.TimeoutError):
                running = await state.kernels.fetch(name, ASK_KERNELS)
        running = [kernel for kernel in running if kernel.state != "dead"]
        if running:
            one = len(running) == 1
            count = "1 kernel runs" if one else f"{len(running)} kernels run"
            notebooks = ", ".join(sorted({k.notebook for k in running if k.notebook}))
            raise TPUError(
                f"{count} on {name.node}{f' ({notebooks})' if notebooks else ''}.",
                Reason.KERNELS_RUNNING,
                f"{doing} ends {'it' if one else 'them'}: confirm that with end_kernels.",
            )

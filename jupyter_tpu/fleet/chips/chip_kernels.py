"""Kernels of a TPU that get some chips of host 0 each: several notebooks on one host."""

from __future__ import annotations

from ...agent.protocol.chosen_chips import chip_variables, group_sizes, groups, is_known
from ...errors import InvalidInput, Reason, TPUError
from ..core.core import Core
from ..models import ChipKernel, ChipKernels, SplitChips
from ..models.catalog import known_type
from ..models.core import validated


class ChipKernelService:
    """A :class:`~jupyter_tpu.fleet.api.ChipKernelsAPI`."""

    def __init__(self, core: Core) -> None:
        self._finder = core.finder
        self._desired = core.desired
        self._observed = core.observed
        self._connected = core.connected

    async def split(self, ref: str, request: SplitChips) -> ChipKernels:
        request = validated(request)
        name = await self._finder.find(ref)
        record = self._desired.environments(name).get(request.environment)
        if record is None or record.environment.state != "ready":
            raise TPUError(
                f"{name.node} has no connected environment {request.environment}.",
                Reason.NOT_FOUND,
                f"Connect it: jupyter tpu connect {name.node} --env {request.environment}",
            )
        node = self._observed.node(name)
        kind = known_type(node.type) if node is not None else None
        of = kind.chips_per_host if kind else 0
        sizes = group_sizes(of)
        if request.each and request.each not in sizes:
            choices = " or ".join(map(str, sizes))
            raise InvalidInput(
                f"A kernel can't have {request.each} of the {of} chips of a host of {name.node}.",
                f"It can have {choices}." if sizes else "",
            )
        chosen = groups(request.each, of) if request.each else []
        specs = self._connected.split(name, record, chosen)
        generation = kind.generation if kind else ""
        return ChipKernels(
            tpu=name.node,
            zone=name.zone,
            environment=request.environment,
            kernels=[
                ChipKernel(
                    chips=chips,
                    kernelspec=kernelspec,
                    display_name=display_name,
                    variables=chip_variables(chips, of, generation, {}),
                )
                for chips, (kernelspec, display_name) in zip(chosen, specs, strict=True)
            ],
            note=_note(generation, request.each, of) if request.each else "",
        )


def _note(generation: str, count: int, of: int) -> str:
    what = f"{count} of the {of} chips of a {generation} host"
    if is_known(generation, count, of):
        return (
            f"The variables for {what} follow published recipes. jupyter-tpu has not tested them "
            "on hardware. Check jax.devices() in each notebook."
        )
    return (
        f"Whether these variables work for {what} is not known. Check jax.devices() in each "
        "notebook."
    )

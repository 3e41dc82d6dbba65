"""One kernel on all hosts of several TPUs, which are the slices of one job ("multislice")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...cloud import Node, NodeName
from ...errors import InvalidInput, Reason, TPUError
from ..core.core import Core
from ..core.records import EnvironmentRecord
from ..models import AddSlicesKernel, SlicesKernel
from ..models.core import validated

if TYPE_CHECKING:
    from ..core.connections import ConnectedTPUs

#: Instead of names: the other TPUs of the queued resource.
QUEUED = "queued"


class SliceKernelService:
    """A :class:`~jupyter_tpu.fleet.api.SliceKernelsAPI`."""

    def __init__(self, core: Core) -> None:
        self._finder = core.finder
        self._desired = core.desired
        self._observed = core.observed
        self._connected: ConnectedTPUs = core.connected
        core.connected.with_environment(self._add_of_queued)

    async def add(self, ref: str, request: AddSlicesKernel) -> SlicesKernel:
        request = validated(request)
        first = await self._finder.find(ref)
        if request.slices == [QUEUED]:
            others = self._of_queued(first)[1:]
            if not others:
                raise InvalidInput(f"{first.node} is the only TPU of its queued resource.")
        else:
            others = [await self._finder.find(other) for other in request.slices]
        return self._register([first, *others], request.environment)

    def _of_queued(self, name: NodeName) -> list[NodeName]:
        """The TPUs of its queued resource: it, and then the others in Google's order."""
        node = self._observed.node(name)
        if node is None or not node.queued:
            return [name]
        others = [
            other.name
            for other in self._observed.nodes.values()
            if other.queued == node.queued and other.name != name
            if (other.name.project, other.name.zone) == (name.project, name.zone)
        ]
        # Google numbers them: job-2 comes before job-10.
        return [name, *sorted(others, key=_order)]

    def _add_of_queued(self, name: NodeName, environment: str) -> str:
        """Adds the kernel on all TPUs of a queued resource, if this was the last one of them to be
        connected. Returns its display name; "" if there is none.
        """
        names = sorted(self._of_queued(name), key=_order)
        if len(names) < 2:
            return ""
        try:
            return self._register(names, environment).display_name
        except TPUError:  # another one is not connected, or has another Python
            return ""

    def _register(self, names: Sequence[NodeName], environment: str) -> SlicesKernel:
        """Raises INVALID, NOT_FOUND, CONFLICT."""
        if len(set(names)) < len(names):
            raise InvalidInput("A TPU is named twice.")
        first, *others = names
        for other in others:
            if (other.project, other.zone) != (first.project, first.zone):
                raise InvalidInput(
                    f"{other.node} is in another zone than {first.node}.",
                    "The slices of one job are in one zone.",
                )
        records = [self._record(name, environment) for name in names]
        pythons = sorted({_minor(record.environment.python) for record in records})
        if len(pythons) > 1:
            raise TPUError(
                f"The environments {environment} differ: {', '.join(pythons)}.",
                Reason.CONFLICT,
                "The hosts of one job need the same version of Python.",
            )
        hosts = sum(len(self._node(name).endpoints) for name in names)
        kernelspec, display_name = self._connected.register_slices(first, records[0], others, hosts)
        return SlicesKernel(
            tpu=first.node,
            zone=first.zone,
            environment=environment,
            slices=[name.node for name in names],
            hosts=hosts,
            kernelspec=kernelspec,
            display_name=display_name,
        )

    def _record(self, name: NodeName, environment: str) -> EnvironmentRecord:
        record = self._desired.environments(name).get(environment)
        ready = record is not None and record.environment.state == "ready"
        if record is None or not ready or name not in self._desired.connected:
            raise TPUError(
                f"{name.node} has no connected environment {environment}.",
                Reason.NOT_FOUND,
                f"Connect it first: jupyter tpu connect {name.node} --env {environment}",
            )
        return record

    def _node(self, name: NodeName) -> Node:
        node = self._observed.node(name)
        if node is None:
            raise TPUError(f"There is no TPU {name.node} any more.", Reason.NOT_FOUND)
        return node


def _order(name: NodeName) -> tuple[int, str]:
    return len(name.node), name.node


def _minor(python: str) -> str:
    """ "Python 3.12" """
    return "Python " + ".".join(python.split(".")[:2])

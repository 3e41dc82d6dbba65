"""``jupyter tpu kernel add --slices``: one kernel on all hosts of several TPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import InvalidInput, Reason, TPUError

if TYPE_CHECKING:
    from ..commands.session import Session


def add_slices_kernel(session: Session, name: str, others: Sequence[str], environment: str) -> str:
    """Registers its kernelspec; returns its display name. Raises INVALID, NOT_FOUND, CONFLICT."""
    from ..kernels import KernelSpecs

    tpus = [session.call(session.fleet.tpu(ref)) for ref in (name, *others)]
    first = tpus[0]
    if len({(tpu.project, tpu.zone, tpu.name) for tpu in tpus}) < len(tpus):
        raise InvalidInput("A TPU is named twice.")
    specs = []
    for tpu in tpus:
        if (tpu.project, tpu.zone) != (first.project, first.zone):
            raise InvalidInput(
                f"{tpu.name} is in another zone than {first.name}.",
                "The slices of one job are in one zone.",
            )
        own = [
            spec
            for spec in KernelSpecs().list()
            if spec.is_default
            and (spec.config["project"], spec.config["zone"], spec.config["tpu"])
            == (tpu.project, tpu.zone, tpu.name)
            and spec.config["environment"] == environment
        ]
        if not own or tpu.connection == "disconnected":
            raise TPUError(
                f"{tpu.name} has no kernel of an environment {environment} here.",
                Reason.NOT_FOUND,
                f"Connect it first: jupyter tpu connect {tpu.name} --env {environment}",
            )
        specs += own[:1]
    versions = {spec.display_name.partition(" · ")[0] for spec in specs}
    if len(versions) > 1:
        raise TPUError(
            f"The environments {environment} differ: {', '.join(sorted(versions))}.",
            Reason.CONFLICT,
            "The hosts of one job need the same version of Python.",
        )
    config = specs[0].config
    _, display_name = KernelSpecs().register(
        project=first.project,
        zone=first.zone,
        tpu=first.name,
        worker=0,
        environment=environment,
        python_version=versions.pop().removeprefix("Python "),
        host_python=config["host_python"],
        emulator=config.get("emulator"),
        emulated=first.emulated,
        variables={},
        hosts=sum(len(tpu.hosts) for tpu in tpus),
        slices=[tpu.name for tpu in tpus[1:]],
    )
    return display_name

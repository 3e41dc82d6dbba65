"""What was checked of a TPU, or before there is one, and what was found."""

from __future__ import annotations

from msgspec import Struct

from ... import catalog
from ...catalog import AcceleratorType
from ...cloud.models import Tier
from ...environment import Finding, Report
from .catalog import image_warning


class CheckSetup(Struct, kw_only=True, forbid_unknown_fields=True):
    """What is to be created, as far as that is known: then more can be checked."""

    type: str | None = None
    zone: str | None = None
    version: str | None = None
    tier: Tier = "on-demand"
    network: str | None = None


class Diagnosis(Struct, kw_only=True):
    """The findings about a TPU, and about all its hosts, host by host; each has at least one.

    Before there is a TPU, those about the project.
    """

    #: "": before there is one.
    tpu: str
    zone: str
    emulated: bool
    #: No finding is a problem.
    healthy: bool
    findings: list[Finding]


def image_finding(accelerator: AcceleratorType, version: str, hint: str) -> Finding:
    """Whether a TPU of that type works with that runtime version; *hint*: what to do if not."""
    name = f"{version} on {accelerator.name}"
    fits = catalog.image_fits(version, accelerator)
    if fits:
        return Report().ok("image", f"The runtime version fits: {name}.")
    if fits is None:
        unknown = f"Whether the runtime version fits is not known: {name}."
        return Report().unknown("image", unknown, hint)
    return Report().problem("image", image_warning(version, accelerator.name), hint)

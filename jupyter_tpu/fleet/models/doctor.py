"""What was checked of a TPU, or before there is one, and what was found."""

from __future__ import annotations

from msgspec import Struct

from ...cloud.models import Tier
from ...environment import Finding


class CheckSetup(Struct, kw_only=True, forbid_unknown_fields=True):
    """What is to be created, as far as that is known: then more can be checked."""

    type: str | None = None
    zone: str | None = None
    version: str | None = None
    tier: Tier = "on-demand"
    network: str | None = None


class Diagnosis(Struct, kw_only=True):
    """The findings about all hosts of a TPU, host by host; each host has at least one.

    Before there is a TPU, those about the project.
    """

    #: "": before there is one.
    tpu: str
    zone: str
    emulated: bool
    #: No finding is a problem.
    healthy: bool
    findings: list[Finding]

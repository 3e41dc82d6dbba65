"""What the check of a TPU found."""

from __future__ import annotations

from msgspec import Struct

from ...environment import Finding


class Diagnosis(Struct, kw_only=True):
    """The findings about all hosts of a TPU, host by host; each host has at least one."""

    tpu: str
    zone: str
    emulated: bool
    #: No finding is a problem.
    healthy: bool
    findings: list[Finding]

"""Several TPUs as the slices of one job ("multislice"): what each host's process has to know.

libtpu finds the other slices by MEGASCALE_* variables; within a slice the host's own variables and
metadata hold. Source: cloud.google.com/tpu/docs/multislice-introduction.
"""

from __future__ import annotations

from typing import Any, Dict

from .host_names import PodSlices, slice_of


def use_slices(spec: Dict[str, Any]) -> None:
    """Notes the slices of this process's kernel; *spec* is the conductor's."""
    PodSlices.sizes = [int(size) for size in spec.get("slices") or ()]
    PodSlices.coordinator = str(spec["address"])


def for_host(member: Dict[str, Any], host: int) -> Dict[str, Any]:
    """What the process next to a host's kernel gets: *member*, and what is this host's own."""
    env = {**(member.get("env") or {}), **_variables(host)}
    return {**member, "host": host, "alias": _alias(host), "env": env}


def _alias(host: int) -> str:
    """As `links.pod_ssh` configures it on host 0."""
    if not PodSlices.sizes:
        return "host-%d" % host
    return "slice-%d-host-%d" % slice_of(host)


def _variables(host: int) -> Dict[str, str]:
    if not PodSlices.sizes:
        return {}
    return {
        "MEGASCALE_COORDINATOR_ADDRESS": PodSlices.coordinator,
        "MEGASCALE_NUM_SLICES": str(len(PodSlices.sizes)),
        "MEGASCALE_SLICE_ID": str(slice_of(host)[0]),
    }

"""Several TPUs as the slices of one job ("multislice"): what each host's process has to know.

libtpu finds the other slices by MEGASCALE_* variables; within a slice the host's own variables and
metadata hold. Source: cloud.google.com/tpu/docs/multislice-introduction.
"""

from __future__ import annotations

from typing import Any, Dict, List

from .host_names import Slices, slice_of


def member_specs(spec: Dict[str, Any], key: str) -> List[Dict[str, Any]]:
    """What the process next to each host's kernel gets; *spec* is the conductor's."""
    member = {**spec["member"], "key": key}
    Slices.sizes = [int(size) for size in spec.get("slices") or ()]
    return [
        {
            **member,
            "host": host,
            "alias": _alias(host),
            "env": {**(member["env"] or {}), **_variables(host, spec["address"])},
        }
        for host in range(spec["hosts"])
    ]


def _alias(host: int) -> str:
    """As `links.pod_ssh` configures it on host 0."""
    if not Slices.sizes:
        return "host-%d" % host
    return "slice-%d-host-%d" % slice_of(host)


def _variables(host: int, coordinator: str) -> Dict[str, str]:
    if not Slices.sizes:
        return {}
    return {
        "MEGASCALE_COORDINATOR_ADDRESS": coordinator,
        "MEGASCALE_NUM_SLICES": str(len(Slices.sizes)),
        "MEGASCALE_SLICE_ID": str(slice_of(host)[0]),
    }

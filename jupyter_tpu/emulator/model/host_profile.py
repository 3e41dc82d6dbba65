"""A host's environment variables, its device files, and the features it lacks on purpose.

The variables are a TPU VM's, a simulated JAX's and, so that a host installs packages the way the
machine does, what the machine's own package clients need (indexes, proxies, certificates).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ...catalog import AcceleratorType
from . import api_errors
from .records import HostRecord, NodeRecord

JAX_COORDINATOR_PORT = 8482

_CLIENT_PREFIXES = ("PIP_", "UV_")
_CLIENT_NAMES = (
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "ssl_cert_file",
    "ssl_cert_dir",
    "requests_ca_bundle",
    "curl_ca_bundle",
    "node_extra_ca_certs",
    "git_ssl_cainfo",
)
#: Settings of a client that only make sense where it was configured.
_NOT_FOR_HOSTS = (
    "PIP_REQUIRE_VIRTUALENV",
    "PIP_TARGET",
    "PIP_PREFIX",
    "PIP_USER",
    "PIP_CACHE_DIR",
    "PIP_PYTHON",
    "UV_CACHE_DIR",
    "UV_LINK_MODE",
    "UV_PROJECT_ENVIRONMENT",
    "UV_PYTHON",
    "UV_SYSTEM_PYTHON",
    "UV_TOOL_DIR",
    "UV_TOOL_BIN_DIR",
    "UV_RUN_RECURSION_DEPTH",
    "UV_WORKING_DIRECTORY",
    "UV_PYTHON_INSTALL_DIR",
    "UV_PYTHON_BIN_DIR",
)


def host_variables(
    node: NodeRecord, host: HostRecord, *, machine: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The variables of a session on *host*; PATH and the caches are the host runtime's."""
    machine = os.environ if machine is None else machine
    accelerator = node.accelerator
    piece = node.slice
    first = node.hosts[0].internal if piece is None else piece.coordinator
    variables = {
        name: value
        for name, value in machine.items()
        if (name.startswith(_CLIENT_PREFIXES) or name.lower() in _CLIENT_NAMES)
        and name not in _NOT_FOR_HOSTS
        and value.isprintable()  # sshd's configuration has no other values
    }
    variables |= {
        "JUPYTER_TPU_EMULATED": "1",
        # Where libtpu's metrics are served, and what a simulated device has.
        "JUPYTER_TPU_METRICS_ADDRESS": host.internal,
        "JUPYTER_TPU_EMULATED_HBM": str(int(accelerator.hbm_gib * 2**30) // accelerator.devices),
        "JUPYTER_TPU_EMULATED_CORES": str(accelerator.devices // accelerator.chips),
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(accelerator.devices_per_host),
        # XLA sizes its thread pools by it. With fewer threads than simulated devices a collective
        # waits for devices that get no thread, and XLA aborts the process (tested).
        "NPROC": str(max(32, 4 * accelerator.devices_per_host)),
        # Hosts share the machine's network: without it every pod's coordinator takes 0.0.0.0.
        "JAX_COORDINATOR_BIND_ADDRESS": f"{first}:{JAX_COORDINATOR_PORT}",
        "TPU_NAME": node.name,
        "TPU_ACCELERATOR_TYPE": accelerator.name,
        "TPU_TOPOLOGY": accelerator.topology,
        "TPU_WORKER_ID": str(host.worker),
        "TPU_WORKER_HOSTNAMES": ",".join(other.internal for other in node.hosts),
        "TPU_SKIP_MDS_QUERY": "1",  # the metadata server does not know these
        # With these jax.distributed.initialize() finds the pod automatically, though it sees no
        # chip.
        "JAX_FORCE_TPU_INIT": "1",
        "MEGASCALE_COORDINATOR_ADDRESS": "" if piece is None else piece.coordinator,
        "MEGASCALE_NUM_SLICES": "1" if piece is None else str(piece.count),
        "MEGASCALE_SLICE_ID": "0" if piece is None else str(piece.number),
    }
    return variables


def device_files(accelerator: AcceleratorType) -> tuple[str, ...]:
    """The device files of a host's chips; those of newer generations are numbered IOMMU groups."""
    old = accelerator.generation in ("v2", "v3", "v4")
    form = "/dev/accel%d" if old else "/dev/vfio/%d"
    chips = tuple(form % number for number in range(accelerator.chips_per_host))
    return chips if old else ("/dev/vfio/vfio", *chips)


def missing_features(metadata: Mapping[str, str]) -> dict[str, Any]:
    """The features that a node's metadata takes from its hosts, as arguments of HostSpec.

    ``emulator-without-python`` and ``emulator-without-python-tools`` (no venv, no pip) are "true"
    or "false"; ``emulator-disk-limit-mb`` is the size of /home in MiB.
    """
    features: dict[str, Any] = {}
    for name in ("without_python", "without_python_tools"):
        features[name] = metadata.get(_key(name), "").lower() == "true"
    limit = metadata.get(_key("disk_limit_mb"))
    if limit is not None:
        if not limit.isdecimal() or not 1 <= int(limit) <= 100_000:
            raise api_errors.invalid_field(
                f"the metadata {_key('disk_limit_mb')} is a number of MiB, not {limit!r}"
            )
        features["disk_limit_mb"] = int(limit)
    return features


def _key(name: str) -> str:
    return "emulator-" + name.replace("_", "-")

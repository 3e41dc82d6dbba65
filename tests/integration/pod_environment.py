"""Pods with an environment that has JAX, and the kernelspecs of their pod kernels."""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from shared_packages import MAKE_ENVIRONMENT

from jupyter_tpu.cloud import CloudTPU, NodeName, Target
from jupyter_tpu.kernel_place import KernelPlace
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import HostName, Links, core_thread


@contextlib.contextmanager
def pod_with_jax(
    emulator: Any,
    prefix: str,
    zone: str,
    hosts: int,
    type: str = "v5litepod-16",
    packages: str = "",
) -> Iterator[str]:
    """The name of a pod whose hosts have an environment with JAX."""
    with emulator.tpu(prefix, type, zone) as node:
        name = node["name"].rpartition("/")[2]
        core_thread().wait(make_environments(emulator, zone, name, hosts, packages))
        yield name


async def make_environments(
    emulator: Any, zone: str, tpu: str, hosts: int, packages: str = ""
) -> None:
    """Makes it on all hosts of a TPU. The first one fills the cache that all share, and where its
    files belong to this user, the others get copies of its links.
    """
    links = Links(CloudTPU(Target(emulator=str(emulator.state_file))))
    node = NodeName(emulator.state.project, zone, tpu)
    make = MAKE_ENVIRONMENT.replace("ipykernel ipywidgets", f"ipykernel jax {packages}")
    try:
        for numbers in [0], range(1, hosts):
            if numbers != [0] and os.geteuid() == 0:
                await asyncio.to_thread(copy_environment, emulator.hosts(tpu))
                continue
            await asyncio.gather(
                *(
                    links.get(HostName(node, host)).run(["sh", "-ec", make], timeout=500)
                    for host in numbers
                )
            )
    finally:
        await links.close()
        await links.cloud.close()


def copy_environment(hosts: list[dict[str, Any]]) -> None:
    """Gives the other hosts the environment of host 0."""
    first, *others = (
        Path(host["folder"], "home/tpu/env")
        for host in sorted(hosts, key=lambda host: host["worker"])
    )
    for other in others:
        subprocess.run(["cp", "-a", first, other], check=True)


def register_pod_kernel(
    emulator: Any,
    zone: str,
    tpu: str,
    hosts: int,
    *,
    slices: Sequence[str] = (),
    specs: KernelSpecs | None = None,
) -> tuple[str, str]:
    """Its kernelspec's name and display name."""
    return (specs or KernelSpecs()).register(
        KernelPlace(
            project=emulator.state.project,
            zone=zone,
            tpu=tpu,
            host_python="/home/tpu/env/bin/python",
            emulator=str(emulator.state_file),
            hosts=hosts,
            slices=",".join(slices),
        ),
        python_version="3.11",
        emulated=True,
    )

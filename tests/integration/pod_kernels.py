"""Pod kernels on emulated pods, and what their cells show."""

from __future__ import annotations

import asyncio
import re
from typing import Any

from local_kernels import Notebook, printed
from shared_packages import MAKE_ENVIRONMENT

from jupyter_tpu.cloud import CloudTPU, NodeName, Target
from jupyter_tpu.emulator.hosts.namespace_host import process_tree
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import HostName, Links

ZONE = "us-west4-a"


async def prepare(emulator: Any, tpu: str, count: int) -> None:
    """Creates an environment with JAX on all hosts."""
    links = Links(CloudTPU(Target(emulator=str(emulator.state_file))))
    node = NodeName(emulator.state.project, ZONE, tpu)
    make = MAKE_ENVIRONMENT.replace("ipykernel ipywidgets", "ipykernel jax")
    try:
        # The first one fills the cache that all share.
        for hosts in ([0], range(1, count)):
            await asyncio.gather(
                *(
                    links.get(HostName(node, host)).run(["sh", "-ec", make], timeout=500)
                    for host in hosts
                )
            )
    finally:
        await links.close()
        await links.cloud.close()


def register(emulator: Any, pod: str, hosts: int = 4) -> tuple[str, str]:
    """The pod kernel's spec, and its display name."""
    return KernelSpecs().register(
        project=emulator.state.project,
        zone=ZONE,
        tpu=pod,
        worker=0,
        environment="default",
        python_version="3.11",
        host_python="/home/tpu/env/bin/python",
        emulator=str(emulator.state_file),
        emulated=True,
        variables={},
        hosts=hosts,
    )


def restart(notebook: Notebook) -> None:
    """Restarts it, and runs a first cell."""
    notebook.manager.restart_kernel(now=True)
    notebook.client.wait_for_ready(timeout=200)
    content, _ = notebook.run("pass", timeout=200)
    assert content["status"] == "ok", content


def shown(seen: list[dict]) -> str:
    """What a cell shows below its first host's output, as plain text: the latest of each."""
    texts = {
        message["content"]["transient"]["display_id"]: message["content"]["data"]["text/plain"]
        for message in seen
        if message["msg_type"] in ("display_data", "update_display_data")
    }
    return "\n".join(texts.values())


def error_of(seen: list[dict]) -> str:
    """A cell's error as it is shown, without colours."""
    [error] = [message["content"] for message in seen if message["msg_type"] == "error"]
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(error["traceback"]))


def stderr(seen: list[dict]) -> str:
    return printed([each for each in seen if each["content"].get("name") == "stderr"])


def pids(emulator: Any, pod: str, host: int) -> list[int]:
    """The processes of the pod kernel's kernel on a host, as this machine numbers them."""
    init = emulator.hosts(pod)[host]["init_pid"]
    return [
        process["outer"]
        for process in process_tree(init)
        if "ipython_kernel.py" in " ".join(process["cmdline"])
    ]

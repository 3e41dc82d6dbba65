"""Pod kernels on emulated pods, and what their cells show."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from typing import Any

from jupyter_client.manager import KernelManager
from local_kernels import Notebook, printed

from jupyter_tpu.emulator.hosts.namespace_host import process_tree

ZONE = "us-west4-a"


@contextlib.contextmanager
def pod_kernel(emulator: Any, kernelspec: str, pod: str) -> Iterator[Notebook]:
    """A running pod kernel; all that it leaves on its hosts is ended with it."""
    manager = KernelManager(kernel_name=kernelspec)
    manager.start_kernel(env={**os.environ, "JUPYTER_TPU_PROJECT_SYNC": "off"})
    notebook = Notebook(manager)
    notebook.run("pass", timeout=200)  # on a busy machine it says what it waits for
    yield notebook
    notebook.close()
    if manager.has_kernel:
        manager.shutdown_kernel(now=True)
    emulator.end_all(pod)


def in_step(notebook: Notebook) -> Notebook:
    """The same, restarted if a test has left it out of step."""
    if notebook.run("%hosts check")[0]["status"] != "ok":
        restart(notebook)
    return notebook


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
    return printed([message for message in seen if message["content"].get("name") == "stderr"])


def pids(emulator: Any, pod: str, host: int) -> list[int]:
    """The processes of the pod kernel's kernel on a host, as this machine numbers them."""
    init = emulator.hosts(pod)[host]["init_pid"]
    return [
        process["outer"]
        for process in process_tree(init)
        if "ipython_kernel.py" in " ".join(process["cmdline"])
    ]

"""Pod kernels on emulated pods, and what their cells show."""

from __future__ import annotations

import re
from typing import Any

from local_kernels import Notebook, printed

from jupyter_tpu.emulator.hosts.namespace_host import process_tree

ZONE = "us-west4-a"


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

"""Kernels on a `LocalHost`, started by an unmodified jupyter_client."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from jupyter_client.provisioning import KernelProvisionerFactory
from local_host import LocalHost, hosts
from waiting import until

from jupyter_tpu.kernel_place import KernelPlace
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import core_thread

#: As a kernelspec of ours, but its provisioner finds its host in `hosts`.
ENTRY_POINT = EntryPoint(
    "jupyter-tpu", "local_host:LocalTPUProvisioner", "jupyter_client.kernel_provisioners"
)


@contextmanager
def local_host(
    name: str, variables: Mapping[str, str] | None = None
) -> Iterator[tuple[LocalHost, Callable[..., KernelManager]]]:
    """A host, and what makes managers of kernels on it; nothing is left there afterwards."""
    home = Path(tempfile.mkdtemp(prefix="h-"))  # below /tmp itself: sockets' paths are short
    (home / "kernels").mkdir()

    async def make() -> LocalHost:
        return LocalHost(home, variables)

    host = hosts[name] = core_thread().wait(make())
    factory = KernelProvisionerFactory.instance()
    before = factory.provisioners.get("jupyter-tpu")
    factory.provisioners["jupyter-tpu"] = ENTRY_POINT
    specs = KernelSpecs(home / "kernels")
    made: list[KernelManager] = []

    def manager(kind: type[KernelManager] = KernelManager, **config: Any) -> KernelManager:
        spec, _ = specs.register(
            KernelPlace(
                project="p",
                zone="z",
                tpu=name,
                host_python=config.pop("host_python", sys.executable),
            ),
            python_version="3.11",
            emulated=True,
        )
        kernelspecs = KernelSpecManager(kernel_dirs=[str(specs.folder)], ensure_native_kernel=False)
        made.append(kind(kernel_name=spec, kernel_spec_manager=kernelspecs, **config))
        return made[-1]

    try:
        yield host, manager
        host.loop_call(host.mend)
        for kernel in made:  # a test that failed may have left its own
            if kernel.has_kernel:
                kernel.shutdown_kernel(now=True)
        until(lambda: not [line for line in host.processes() if "keeper" in line])
        core_thread().wait(host.close())
        until(lambda: not host.processes())
    finally:
        if before is not None:
            factory.provisioners["jupyter-tpu"] = before
        shutil.rmtree(home, ignore_errors=True)
    assert host.holds == 0, "every hold of the link was given back"


class Notebook:
    """A client of one kernel that collects what a cell shows."""

    def __init__(self, manager: KernelManager, **options: Any) -> None:
        self.manager = manager
        self.client = manager.client(**options)
        self.client.start_channels()
        self.client.wait_for_ready(timeout=60)

    def run(self, code: str, timeout: float = 60, **options: Any) -> tuple[dict, list[dict]]:
        """Executes *code*: the content of its reply, and its iopub messages."""
        seen: list[dict] = []
        reply = self.client.execute_interactive(
            code, timeout=timeout, output_hook=seen.append, **options
        )
        return reply["content"], seen

    def text(self, code: str, **options: Any) -> str:
        """What *code* prints.

        What a kernel, a local one too, is asked while it deals with an error is aborted.
        """
        content, seen = self.run(code, **options)
        if content["status"] == "aborted":
            content, seen = self.run(code, **options)
        assert content["status"] == "ok", content
        return printed(seen)

    def until_output(self, message_id: str, text: str) -> list[dict]:
        """Reads iopub until the request of *message_id* has printed *text*."""
        seen: list[dict] = []
        while text not in printed(seen):
            message = self.client.get_iopub_msg(timeout=60)
            if message["parent_header"].get("msg_id") == message_id:
                seen.append(message)
        return seen

    def until_idle(self, message_id: str) -> list[dict]:
        """Reads iopub until the request of *message_id* is done."""
        seen: list[dict] = []
        while not (seen and seen[-1]["content"].get("execution_state") == "idle"):
            message = self.client.get_iopub_msg(timeout=120)
            if message["parent_header"].get("msg_id") == message_id:
                seen.append(message)
        return seen

    def close(self) -> None:
        self.client.stop_channels()


def printed(messages: list[dict]) -> str:
    return "".join(m["content"]["text"] for m in messages if m["msg_type"] == "stream")

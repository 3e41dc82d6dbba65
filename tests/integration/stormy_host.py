"""Kernels on an emulated TPU's host whose SSH leads through a line that can be made bad."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fault_proxy import FaultProxy
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager
from jupyter_client.provisioning import KernelProvisionerFactory
from local_host import hosts
from local_kernels import ENTRY_POINT
from waiting import until

from jupyter_tpu.cloud import CloudTPU, NodeName, Target
from jupyter_tpu.emulator.hosts.namespace_host import process_tree
from jupyter_tpu.kernel_place import KernelPlace
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import HostName, Link, Links, core_thread
from jupyter_tpu.ssh import Keepalive

ZONE = "us-central1-a"
PYTHON = "/home/tpu/env/bin/python"


@contextmanager
def line_to(emulator: Any, tpu: str) -> Iterator[FaultProxy]:
    """A good line, so far, that every SSH connection to *tpu*'s first host takes, from whatever
    process."""
    host = emulator.hosts(tpu)[0]
    with FaultProxy(host["address"], host["port"], address=host["address"]) as proxy:
        fault = {"kind": "line", "node": tpu, "port": proxy.port}
        made = emulator.request("POST", "/emulator/v1/faults", fault)
        try:
            yield proxy
        finally:
            emulator.request("DELETE", f"/emulator/v1/faults/{made['id']}")


class Storm:
    """A TPU behind a bad line, as this process reaches it.

    Attributes
    ----------
    proxy: the line.
    link: the link to the TPU's host, with a keepalive of its own; it is held.
    """

    def __init__(self, emulator: Any, tpu: str, proxy: FaultProxy, keepalive: Keepalive) -> None:
        self.proxy = proxy
        self._tpu = tpu
        self._emulator = emulator
        self._managers: list[KernelManager] = []
        self.link: Link = core_thread().wait(self._make(keepalive))

    async def _make(self, keepalive: Keepalive) -> Link:
        self._cloud = CloudTPU(Target(emulator=str(self._emulator.state_file)))
        self._links = Links(self._cloud, keepalive=keepalive)
        node = NodeName(self._emulator.state.project, ZONE, self._tpu)
        link = self._links.get(HostName(node, 0))
        link.acquire()
        return link

    def kernel(self) -> KernelManager:
        """The manager of a kernel that runs."""
        spec, _ = KernelSpecs().register(
            KernelPlace(
                project=self._emulator.state.project,
                zone=ZONE,
                tpu=self._tpu,
                environment="stormy",
                host_python=PYTHON,
                emulator=str(self._emulator.state_file),
            ),
            python_version="3.11",
            emulated=True,
        )
        kernelspecs = KernelSpecManager(
            kernel_dirs=[str(KernelSpecs().folder)], ensure_native_kernel=False
        )
        manager = KernelManager(kernel_name=spec, kernel_spec_manager=kernelspecs)
        self._managers.append(manager)
        manager.start_kernel()
        return manager

    def processes(self, what: Callable[[dict[str, Any]], bool]) -> list[int]:
        """Processes of the host, as this machine numbers them; each has a name and a cmdline."""
        (host,) = self._emulator.hosts(self._tpu)
        return [process["outer"] for process in process_tree(host["init_pid"]) if what(process)]

    @property
    def home(self) -> Path:
        """The home folder on the host, as this machine sees it."""
        (host,) = self._emulator.hosts(self._tpu)
        return Path(host["folder"], "home", "tpu")

    def close(self) -> None:
        self.proxy.mend()
        for manager in self._managers:
            if manager.has_kernel:
                manager.shutdown_kernel(now=True)
        core_thread().wait(self._close())

    async def _close(self) -> None:
        await self._links.close()
        await self._cloud.close()


@contextmanager
def storm(emulator: Any, tpu: str, keepalive: Keepalive | None = None) -> Iterator[Storm]:
    """A :class:`Storm` whose line is good so far."""
    factory = KernelProvisionerFactory.instance()
    before, others = factory.provisioners.get("jupyter-tpu"), dict(hosts)
    with line_to(emulator, tpu) as proxy:
        made = Storm(emulator, tpu, proxy, keepalive or Keepalive())
        hosts[tpu] = made.link  # as much of a host as kernels need
        factory.provisioners["jupyter-tpu"] = ENTRY_POINT
        try:
            yield made
        finally:
            made.close()
            hosts.clear()
            hosts.update(others)
            if before is not None:
                factory.provisioners["jupyter-tpu"] = before
    if tpu not in others:  # the outermost: the host is left to others as if nothing had been
        until(lambda: not made.processes(is_keeper))
        for daemon in made.processes(is_agent):  # which would stay for a while
            os.kill(daemon, signal.SIGTERM)
        until(lambda: not made.processes(is_agent))


def is_agent(process: dict[str, Any]) -> bool:
    """Whether a process of a host is a daemon or keeper of ours."""
    return process["cmdline"][-1:] == ["daemon"] or is_keeper(process)


def is_keeper(process: dict[str, Any]) -> bool:
    return process["cmdline"][-1:] == ["keeper"]

"""Environments on the hosts of new TPUs, made without a fleet; see the fixture `on_new_tpu`."""

import asyncio
from typing import Any

from jupyter_tpu import environment
from jupyter_tpu.cloud import NodeName
from jupyter_tpu.environment import CreatedEnvironment, EnvironmentSpec, ExpectedHardware
from jupyter_tpu.fleet.core.known_operations import OperationProgress
from jupyter_tpu.fleet.models import Operation
from jupyter_tpu.links import HostName, Link, Links

LIMIT = 400.0  # seconds


class Making:
    """Makes environments on a TPU's host 0, and keeps what was said."""

    def __init__(self, links: Links, name: NodeName) -> None:
        self.link: Link = links.get(HostName(name, 0))
        self.log: list[str] = []

    async def make(self, **spec: Any) -> CreatedEnvironment:
        operation = Operation(id="1", kind="connect", tpu=self.link.host.node.node)
        progress = OperationProgress(operation, lambda: None)
        request = EnvironmentSpec(**{"environment": "default", **spec})
        progress.plan(environment.plan(request), hosts=1)
        self.log = operation.log
        expected = ExpectedHardware(emulated=True, devices_per_host=4)
        return await asyncio.wait_for(
            environment.create([self.link], request, expected, progress), LIMIT
        )

    async def run(self, *argv: str) -> str:
        return (await self.link.run(argv)).stdout.strip()

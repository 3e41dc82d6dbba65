"""Checks everything on the hosts of a TPU that can keep JAX from its chips."""

from __future__ import annotations

from ... import environment
from ...links import HostName
from ..knowledge.desired import DesiredState
from ..knowledge.finder import TPUFinder
from ..models import Diagnosis
from ..models.catalog import known_type
from .connections import HostConnections


class Doctor:
    """The fleet's part ``doctor``."""

    def __init__(
        self, finder: TPUFinder, desired: DesiredState, connections: HostConnections, emulated: bool
    ) -> None:
        self._finder = finder
        self._desired = desired
        self._connections = connections
        self._emulated = emulated

    async def check(self, ref: str) -> Diagnosis:
        node = await self._finder.find_ready(ref, "Only the hosts of a READY TPU can be checked.")
        kind = known_type(node.type)
        ready = {
            name: record.environment.python_path
            for name, record in self._desired.environments(node.name).items()
            if record.environment.state == "ready"
        }
        workers = range(len(node.endpoints))
        links = [self._connections.link(HostName(node.name, worker)) for worker in workers]
        for link in links:
            link.acquire()
        try:
            hosts = await environment.examine(links, ready, node.endpoints[0].internal)
        finally:
            for link in links:
                link.release()
        expected = environment.ExpectedTPU(
            name=node.name.node,
            emulated=self._emulated,
            chips_per_host=kind.chips_per_host if kind else 0,
            devices_per_host=kind.devices_per_host if kind else 0,
        )
        findings = environment.diagnose(hosts, expected)
        return Diagnosis(
            tpu=node.name.node,
            zone=node.name.zone,
            emulated=self._emulated,
            healthy=all(finding.state != "problem" for finding in findings),
            findings=findings,
        )

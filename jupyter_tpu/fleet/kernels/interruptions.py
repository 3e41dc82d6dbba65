"""What the hosts of a TPU say of an interruption that Google announces to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import convert

from ...cloud import Node, NodeName
from ...links import HostName
from ..core.observed import ObservedState
from ..models import Interruption


class Interruptions:
    """What is known of them. changed(name) is called when a TPU's hosts say something else."""

    def __init__(self, observed: ObservedState, changed: Callable[[NodeName], None]) -> None:
        self._observed = observed
        self._changed = changed
        #: By TPU: its node's id, and what each host that says something said last.
        self._reports: dict[NodeName, tuple[str, dict[int, Interruption]]] = {}

    def update(self, host: HostName, report: Mapping[str, Any] | None) -> None:
        """Takes the report of a host. None: nothing is announced to it, or an older agent."""
        node = self._observed.node(host.node)
        if node is None:
            return
        before = self._of(node)
        reports = {worker: what for worker, what in before.items() if worker != host.worker}
        if report is not None:
            run = [{**checkpoint, "host": host.worker} for checkpoint in report["checkpoints"]]
            fields = {**report, "hosts": [host.worker], "checkpoints": run}
            reports[host.worker] = convert(fields, Interruption)
        if reports != before:
            self._reports[host.node] = node.id, reports
            self._changed(host.node)

    def last_known(self, node: Node) -> Interruption | None:
        """Of all hosts together, the gravest; it stays known while a host that said so is gone."""
        reports = self._of(node)
        for kind in ("preemption", "maintenance"):
            hosts = sorted(host for host, what in reports.items() if what.kind == kind)
            if hosts:
                return Interruption(
                    kind=reports[hosts[0]].kind,
                    hosts=hosts,
                    noticed=min(reports[host].noticed for host in hosts),
                    checkpoints=[
                        run for host in sorted(reports) for run in reports[host].checkpoints
                    ],
                )
        return None

    def _of(self, node: Node) -> dict[int, Interruption]:
        id, reports = self._reports.get(node.name, ("", {}))
        return reports if id == node.id else {}

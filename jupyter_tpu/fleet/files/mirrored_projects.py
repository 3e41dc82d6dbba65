"""The projects of notebooks that hosts have: what is shown of their mirrors."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from ...cloud import NodeName
from ...files.sync import Mirror, SyncOutcome, default_mirrors
from ..core.connections import HostConnections
from ..models import MirroredProject, Problem, SyncProject, SyncResult
from .sync import result_of


class MirroredProjects:
    """Mirrored projects of kernels here. changed: called with a TPU whose projects have changed."""

    def __init__(self, connections: HostConnections, changed: Callable[[NodeName], None]) -> None:
        self._connections = connections
        self._results: dict[Mirror, tuple[SyncOutcome, SyncResult]] = {}
        self._mirrors = default_mirrors()

        def follow(mirror: Mirror) -> None:
            if mirror not in self._mirrors.running():
                self._results.pop(mirror, None)
            if self._is_ours(mirror):
                changed(mirror.host.host.node)

        self.close = self._mirrors.subscribe(follow)

    def on(self, name: NodeName) -> list[MirroredProject]:
        mirrors = [
            mirror
            for mirror in self._mirrors.running()
            if mirror.host.host.node == name and self._is_ours(mirror)
        ]
        return sorted(
            map(self._view, mirrors),
            key=lambda project: (project.folder, project.host),
        )

    def _is_ours(self, mirror: Mirror) -> bool:
        """Not of a TPU of the same name of another cloud."""
        return self._connections.link(mirror.host.host).host_id == mirror.host.host_id

    def _view(self, mirror: Mirror) -> MirroredProject:
        return MirroredProject(
            folder=str(mirror.folder),
            remote=mirror.remote,
            host=mirror.host.host.number,
            state=mirror.state,
            problem=Problem.of(mirror.problem) if mirror.problem else None,
            result=self._result(mirror),
        )

    def _result(self, mirror: Mirror) -> SyncResult | None:
        """The same until the next comparison: its time does not change."""
        outcome = mirror.overall
        if outcome is None:
            return None
        known = self._results.get(mirror)
        if known is None or known[0] is not outcome:
            request = SyncProject(folder=str(mirror.folder), remote=mirror.remote)
            result = result_of(request, outcome)
            known = outcome, structs.replace(result, written=[], deleted=[], newer=[])
            self._results[mirror] = known
        return known[1]

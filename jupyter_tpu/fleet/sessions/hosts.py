"""What hosts are asked about sessions: which there are, and to delete one."""

from __future__ import annotations

import time

from ...cloud import NodeName
from ...concurrency import gather_or_cancel
from ...errors import Reason, TPUError
from ...links import HostName
from ...on_host.agent.protocol import requests
from ...on_host.agent.protocol.records import StoredSessionReport
from ..core.core import Core
from ..core.host_programs import ready_pythons, signing_key
from ..models import Session
from .index import SessionIndex

#: Seconds for a host to list what is in a place, and to delete a session there.
LIST_SECONDS, FORGET_SECONDS = 60.0, 300.0


class SessionHosts:
    """Hosts read buckets by their service accounts: nothing of it goes through this computer."""

    def __init__(self, core: Core, index: SessionIndex) -> None:
        self._core = core
        self._index = index
        #: When each TPU was last asked; on the monotonic clock.
        self._asked: dict[tuple[NodeName, str], float] = {}

    def was_asked(self, name: NodeName, node_id: str) -> bool:
        """Whether this process has asked its host 0 which sessions there are."""
        return (name, node_id) in self._asked

    async def refresh(self, name: NodeName, places: set[str]) -> list[TPUError]:
        """Asks host 0 of a READY TPU what is in *places*; returns why some are not known."""
        errors: list[TPUError] = []
        node = self._core.observed.require_hosts(name)
        for place in sorted(places):
            try:
                reports = await self.listed(name, place)
            except TPUError as error:
                errors.append(error)
            else:
                self._index.note_listed(name, node.id, 0, place, reports)
        self._asked[name, node.id] = time.monotonic()
        return errors

    async def listed(self, name: NodeName, place: str) -> list[StoredSessionReport]:
        """The sessions in a place, as host 0 reads them. Raises TPUError."""
        request = requests.ListSessionsRequest(
            python=self._python(name), place=place, key=await self.key(name)
        )
        answer = await self._core.connections.request(name, request, LIST_SECONDS)
        _require(answer.get("problem", ""), name)
        return answer["sessions"]

    async def forget(self, name: NodeName, session: Session) -> bool:
        """Has the hosts that can delete it do so; False if there was none.

        Where all hosts of a pod have a part of it, host 0 is the first and the last: if one of them
        can't, it is listed as being deleted, and can be deleted again.
        """
        key, first = await self.key(name), 0 if session.place else session.host
        there = len(self._core.observed.require_hosts(name).endpoints)
        others = range(1, min(session.hosts, there)) if not session.place else ()

        async def ask(host: int, **step: bool) -> bool:
            request = requests.ForgetSessionRequest(
                python=self._python(name),
                name=session.name,
                place=session.place,
                key=key,
                **step,
            )
            to = HostName(name, host)
            answer = await self._core.connections.request_host(to, request, FORGET_SECONDS)
            _require(answer.get("problem", ""), name)
            return answer["forgotten"]

        if others:
            await ask(first, mark=True)
            await gather_or_cancel([ask(host, of_pod=True) for host in others])
        return await ask(first)

    async def copy(
        self,
        host: HostName,
        session: Session,
        copy: str,
        *,
        of_pod: bool = False,
        ended: bool = False,
    ) -> requests.SessionCopy:
        """Has a host keep the files of a session on its disk as they are, until it *ended*."""
        name = host.node
        request = requests.CopySessionRequest(
            python=self._python(name),
            name=session.name,
            copy=copy,
            key=await self.key(name),
            of_pod=of_pod,
            ended=ended,
        )
        answer = await self._core.connections.request_host(host, request, FORGET_SECONDS)
        _require(answer.get("problem", ""), name)
        return answer

    def can_reach(self, name: NodeName) -> bool:
        """Whether its host can be asked now."""
        return self._core.observed.is_ready(name) and bool(ready_pythons(self._core, name))

    def _python(self, name: NodeName) -> str:
        for python in ready_pythons(self._core, name):
            return python
        raise TPUError(
            f"{name.node} has no environment, so its sessions can't be read.",
            Reason.CONFLICT,
            f"Connect it first: jupyter tpu connect {name.node}",
        )

    async def key(self, name: NodeName) -> str:
        """That by which kernels there sign; "": the host's own, where a coding agent rules."""
        return await signing_key(self._core, name)


def _require(problem: str, name: NodeName) -> None:
    if problem:
        raise TPUError(
            problem,
            Reason.UNAVAILABLE,
            f"Check the place, and what the service account of {name.node} may do there.",
        )

"""Deletes sessions that were not saved for as long as was chosen for their TPU.

A Jupyter server does it, once an hour. It asks the host first what is there now: a session that
was saved again meanwhile stays, and so does what is not this user's, or is not known here.
"""

from __future__ import annotations

import asyncio
import logging
import time

from ...cloud import NodeName
from ...errors import TPUError
from ...own_log import happened
from ..core.core import FIRST_LOOK, Core
from ..core.records import SessionRecord
from ..models.sessions import COMPUTER
from .computer import ComputerSessions
from .hosts import SessionHosts
from .index import SessionIndex

log = logging.getLogger(__name__)

#: Seconds between two looks.
LOOK_SECONDS = 3600.0


class SessionRetention:
    def __init__(
        self, core: Core, index: SessionIndex, hosts: SessionHosts, computer: ComputerSessions
    ) -> None:
        self._observed = core.observed
        self._desired = core.desired
        self._index = index
        self._hosts = hosts
        self._computer = computer

    async def run(self) -> None:
        await asyncio.sleep(FIRST_LOOK)
        while True:
            await self.delete_expired(time.time())
            await asyncio.sleep(LOOK_SECONDS)

    async def delete_expired(self, now: float) -> None:
        """now: seconds since the epoch."""
        looked: set[tuple[NodeName, str]] = set()
        for record in self._index.expired(now):
            name = self._reached_from(record)
            if name is None:
                continue  # when its TPU, or another one, is READY again
            session = record.session
            try:
                if session.place == COMPUTER:
                    await self._computer.delete(session)
                    self._index.drop(session.id)
                    happened(f"Deleted the expired session {session.name}", tpu=name.node)
                    continue
                if (name, session.place) not in looked:
                    looked.add((name, session.place))
                    if errors := await self._hosts.refresh(name, {session.place}):
                        raise errors[0]
                expired = {again.session.id for again in self._index.expired(now)}
                known = self._index.find(session.id)
                if session.id in expired and known is not None and known.problem is None:
                    await self._hosts.forget(name, known)
                    self._index.drop(session.id)
                    happened(f"Deleted the expired session {session.name}", tpu=name.node)
            except TPUError as error:
                log.warning("The session %s could not be deleted: %s", session.name, error)

    def _reached_from(self, record: SessionRecord) -> NodeName | None:
        """A TPU whose host can delete it now: its own, or for a bucket, another one."""
        if record.session.place == COMPUTER:
            return record.name
        node = self._observed.node(record.name)
        there = record.session.place or (node is not None and node.id == record.node_id)
        if there and self._hosts.can_reach(record.name):
            return record.name
        if not record.session.place:
            return None
        others = (name for name in self._desired.connected if self._hosts.can_reach(name))
        return next(others, None)

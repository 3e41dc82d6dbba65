"""`HostSession`: one connection of a link, and what lives no longer than it."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING

from ..errors import ConnectionLost, TPUError
from ..ssh import Connection, Keepalive, connect

if TYPE_CHECKING:
    from ..ssh.agent_client import AgentClient

#: How long saying goodbye to the agent may take; its stream is probably gone already.
_CLOSE_LIMIT = 5.0  # seconds

#: How long bulk data share the first connection after the host refused another.
_AGAIN = 60.0  # seconds

log = logging.getLogger(__name__)


class HostSession:
    """An open connection, others for bulk data, and the agent's channel.

    All but the first are made when they are first asked for.
    """

    def __init__(self, connection: Connection, keepalive: Keepalive) -> None:
        self.connection = connection
        self._keepalive = keepalive
        self._ended = False
        self._agent: AgentClient | None = None
        self._agent_lock = asyncio.Lock()  # one deployment at a time
        self._bulk: dict[bool, Connection] = {}  # by whether it compresses
        self._bulk_locks = {False: asyncio.Lock(), True: asyncio.Lock()}
        self._bulk_again = 0.0  # when to try again, after the host refused

    async def agent(self) -> AgentClient:
        """Our agent on the host; deployed if it is not there yet."""
        from ..ssh.agent_client import ensure_agent

        async with self._agent_lock:
            self._check()
            if self._agent is None or self._agent.closed:
                ssh = self.connection
                agent = await ensure_agent(ssh.run, ssh.open_unix)
                if self._ended:
                    await _leave(agent)
                self._check()
                self._agent = agent
            return self._agent

    async def bulk(self, *, compressed: bool = False) -> Connection:
        """The connection for bulk data, or the one that compresses them.

        On the first connection, what people wait for would queue behind them. While the host
        accepts no other connection, they get there all the same.
        """
        now = asyncio.get_running_loop().time
        async with self._bulk_locks[compressed]:
            self._check()
            found = self._bulk.get(compressed)
            if found is not None and not found.closed:
                return found
            if now() >= self._bulk_again:
                host = self.connection.host
                try:
                    opened = await connect(host, keepalive=self._keepalive, compressed=compressed)
                except TPUError as error:
                    self._check()
                    self._bulk_again = now() + _AGAIN
                    log.info("Bulk data share the connection to %s: %s", host.label, error)
                else:
                    if self._ended:
                        await opened.close()
                    self._check()
                    self._bulk[compressed] = opened
                    return opened
        plain = self._bulk.get(False)
        return self.connection if plain is None or plain.closed else plain

    def _check(self) -> None:
        if self._ended:
            raise ConnectionLost(self.connection.host.label)

    def abort(self) -> None:
        """Drops the connection at once: what runs over it fails now, and can use the next one."""
        self._ended = True
        for connection in (self.connection, *self._bulk.values()):
            connection.abort()

    async def close(self) -> None:
        """Says goodbye to the agent, which may end then, and closes the connections."""
        self._ended = True
        agent, self._agent = self._agent, None
        bulk, self._bulk = self._bulk, {}
        if agent is not None:
            await _leave(agent)
        connections = (self.connection, *bulk.values())
        await asyncio.gather(*(connection.close() for connection in connections))


async def _leave(agent: AgentClient) -> None:
    with contextlib.suppress(asyncio.TimeoutError, TPUError):
        await asyncio.wait_for(agent.close(), _CLOSE_LIMIT)

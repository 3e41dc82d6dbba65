"""`HostSession`: one connection of a link, and what lives no longer than it."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from ..errors import ConnectionLost, TPUError

if TYPE_CHECKING:
    from ..ssh import Connection
    from ..ssh.agent_client import AgentClient

#: How long leaving the agent may take; its stream is probably gone already.
_CLOSE_LIMIT = 5.0  # seconds


class HostSession:
    """An open connection, and the agent's channel, which is made when it is first asked for."""

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self._ended = False
        self._agent: AgentClient | None = None
        self._agent_lock = asyncio.Lock()  # one deployment at a time

    @property
    def has_agent(self) -> bool:
        """Whether the agent's channel is open."""
        return self._agent is not None and not self._agent.closed

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

    def _check(self) -> None:
        if self._ended:
            raise ConnectionLost(self.connection.host.label)

    def abort(self) -> None:
        """Drops the connection at once: what runs over it fails now, and can use the next one."""
        self._ended = True
        self.connection.abort()

    async def close(self) -> None:
        """Tells the agent that this client leaves, and closes the connection."""
        self._ended = True
        agent, self._agent = self._agent, None
        if agent is not None:
            await _leave(agent)
        await self.connection.close()


async def _leave(agent: AgentClient) -> None:
    with contextlib.suppress(asyncio.TimeoutError, TPUError):
        async with asyncio.timeout(_CLOSE_LIMIT):
            await agent.close()

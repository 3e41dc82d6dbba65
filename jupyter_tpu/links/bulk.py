"""`BulkConnection`: a second connection of a link, so that large data does not delay cells."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from ..errors import TPUError
from ..ssh import HostAddress, Keepalive, SSHConnection, connect

log = logging.getLogger(__name__)

#: How long to wait for the connection before the link's own is used; opening it continues.
_OPEN_TIMEOUT = 5.0  # seconds

#: How long the link's own connection is used after the host refused this one.
_RETRY_AFTER = 60.0  # seconds

#: How long the connection stays open without a use.
_IDLE_SECONDS = 60.0  # seconds

#: How long the host may take to answer over this connection when the link was made anew.
_PROBE_LIMIT = 5.0  # seconds; the answer may wait behind a download


class BulkConnection:
    """Opened when it is first needed; closed when it is idle, and with its link.

    The loss of either connection does not end the other. Lives on the core loop.

    Parameters
    ----------
    keepalive: how soon a silent host is noticed.
    run_in_background: runs what takes time, such as closing; the link waits for it when it closes.
    compressed: whether it compresses all data.
    """

    def __init__(
        self,
        keepalive: Keepalive,
        run_in_background: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        *,
        compressed: bool = False,
    ) -> None:
        self._keepalive = keepalive
        self._run_in_background = run_in_background
        self._compressed = compressed
        self._connection: SSHConnection | None = None
        self._opening: asyncio.Task[None] | None = None
        self._refused_until = 0.0
        self._last_use = 0.0
        self._idle_check: asyncio.TimerHandle | None = None

    async def get(self, host: HostAddress) -> SSHConnection | None:
        """The connection to *host*; None if the host refuses it, or does not answer soon."""
        self._last_use = asyncio.get_running_loop().time()
        if connection := self._open_to(host):
            return connection
        if self._opening is None or self._opening.done():
            if self._last_use < self._refused_until:
                return None
            self._opening = self._run_in_background(self._open(host))
        done, _ = await asyncio.wait({self._opening}, timeout=_OPEN_TIMEOUT)
        if not done:
            log.info("Large data shares the connection to %s: a second is not up yet", host.label)
        return self._open_to(host)

    def link_up(self, host: HostAddress) -> None:
        """Call it when the link was connected (again), to *host*: was this one lost, too?"""
        self._refused_until = 0.0
        if self._connection is not None:
            self._run_in_background(self._verify(self._connection, host))

    def close(self) -> None:
        """Closes it in the background; what runs over it fails. It can be used again."""
        if self._opening is not None:
            self._opening.cancel()
        self._replace(None)

    def _open_to(self, host: HostAddress) -> SSHConnection | None:
        connection = self._connection
        return (
            connection if connection and not connection.closed and connection.host == host else None
        )

    async def _open(self, host: HostAddress) -> None:
        try:
            self._replace(
                await connect(host, keepalive=self._keepalive, compressed=self._compressed)
            )
        except TPUError as error:
            self._refused_until = asyncio.get_running_loop().time() + _RETRY_AFTER
            log.info("Tunnels and apps share the connection to %s: %s", host.label, error)

    def _replace(self, connection: SSHConnection | None) -> None:
        before, self._connection = self._connection, connection
        if self._idle_check is not None:
            self._idle_check.cancel()
            self._idle_check = None
        if connection is not None:
            self._check_idle_later()
        if before is not None:
            self._run_in_background(before.close())

    async def _verify(self, connection: SSHConnection, host: HostAddress) -> None:
        if connection.host != host or not await connection.alive(_PROBE_LIMIT):
            connection.abort()

    def _check_idle_later(self) -> None:
        self._idle_check = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._close_if_idle)

    def _close_if_idle(self) -> None:
        connection = self._connection
        idle = asyncio.get_running_loop().time() - self._last_use >= _IDLE_SECONDS
        if connection is not None and (connection.closed or (idle and not connection.in_use)):
            self._replace(None)
        else:
            self._check_idle_later()

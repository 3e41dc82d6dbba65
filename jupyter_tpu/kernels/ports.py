"""The kernel's ports on this machine. Clients connect to them instead of to the kernel.

The ports stay open while the kernel's id exists, so clients notice neither lost links nor
restarts. Client messages are passed on with the identities that route the answers back.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import Reason, TPUError
from ..on_host.agent.protocol.events import CONTROL, IOPUB, SHELL, STDIN
from .heartbeat import Heartbeat
from .port import PUBLISHER, ROUTER, Port, PortClient

log = logging.getLogger(__name__)

#: Bytes of output that are buffered for a slow client, or until the first one subscribes; then the
#: oldest is dropped.
MAX_BUFFERED = 64 << 20
#: Seconds after which a client that must not lose output, and reads none, counts as not reading. A
#: local kernel drops its output then, too.
STALLED_SECONDS = 300.0

_NAMES = {SHELL: "shell", CONTROL: "control", STDIN: "stdin", IOPUB: "iopub"}


class KernelPorts:
    """The ports of a connection file, from `bind` to `close`. Runs on one event loop.

    Parameters
    ----------
    on_message: called with the channel and parts of a client's message on shell, control or stdin.
    on_subscriber: called when the first client subscribes to iopub.
    lossless: a client that reads iopub slowly holds up all of them (see :meth:`is_full`), unless it
        reads nothing for STALLED_SECONDS. False: what it does not read fills this machine's memory.
    """

    def __init__(
        self,
        on_message: Callable[[int, list[bytes]], None],
        on_subscriber: Callable[[], None],
        *,
        lossless: bool = False,
    ) -> None:
        self._on_message = on_message
        self._on_subscriber = on_subscriber
        self._lossless = lossless
        self._paused = self._delivering = False
        self._held: deque[tuple[int, list[bytes]]] = deque()  # messages that came while paused
        self._reset()

    def _reset(self) -> None:
        self.endpoints: dict[str, str] = {}  # none while no port is bound
        self._ports: dict[int, Port] = {}
        self._heartbeat: Heartbeat | None = None
        self._full: dict[PortClient, asyncio.TimerHandle] = {}  # clients that read too slowly
        self._on_drained: Callable[[], None] | None = None
        self._buffered: deque[list[bytes]] = deque()
        self._buffered_bytes = 0

    async def bind(self, connection: Mapping[str, Any]) -> None:
        """Binds the ports of *connection* (``transport``, ``ip``, ``shell_port`` and so on) instead
        of others, unless they are bound. Raises CONFLICT if one is in use.
        """
        places = endpoints(connection)
        # jupyter_client deletes the files of ipc sockets at each restart.
        if places == self.endpoints and connection.get("transport") != "ipc":
            return
        await self.close()
        try:
            for channel, name in _NAMES.items():
                port = self._ports[channel] = self._port(channel)
                await port.open(places[name])
            self._heartbeat = Heartbeat()
            await self._heartbeat.open(places["hb"])
        except OSError as error:
            await self.close()
            raise TPUError(
                f"A port of the kernel cannot be used on this machine: {error.strerror}.",
                Reason.CONFLICT,
                "Start the kernel again. It gets other ports.",
            ) from error
        self.endpoints = places

    def _port(self, channel: int) -> Port:
        if channel == IOPUB:
            return Port(
                PUBLISHER,
                on_subscriber=self._subscribed,
                limit=MAX_BUFFERED,
                on_full=self._fullness_changed,
            )
        port = Port(ROUTER, lambda parts: self._received(channel, parts))
        if channel != CONTROL:
            port.read_more(not self._paused)
        return port

    def send(self, channel: int, parts: list[bytes]) -> None:
        """Sends a message to its client, or on iopub to all clients. Never waits."""
        port = self._ports.get(channel)
        if port is None:
            return
        if channel != IOPUB:
            port.send(parts)
        elif port.subscribed:
            port.publish(parts)
        else:
            self._buffer(parts)

    def is_full(self, on_drained: Callable[[], None]) -> bool:
        """Whether much output waits for a slow client. *on_drained* is called once when not."""
        if not self._full:
            return False
        self._on_drained = on_drained
        return True

    def _fullness_changed(self, client: PortClient) -> None:
        if not self._lossless:
            return
        timer = self._full.pop(client, None)
        if timer is not None:
            timer.cancel()
        if client.full:
            self._watch(client)
        self._report_drained()

    def _report_drained(self) -> None:
        if self._on_drained is not None and not self._full:
            on_drained, self._on_drained = self._on_drained, None
            on_drained()

    def _watch(self, client: PortClient) -> None:
        """Gives a full client up if it has not read anything when its time is over."""
        loop = asyncio.get_running_loop()
        self._full[client] = loop.call_later(STALLED_SECONDS, self._look, client, client.waiting)

    def _look(self, client: PortClient, waited: int) -> None:
        if client.waiting < waited:
            self._watch(client)
            return
        log.warning("A client does not read its output. Further output for it may be dropped.")
        client.stalled = True
        del self._full[client]
        self._report_drained()

    def _buffer(self, parts: list[bytes]) -> None:
        self._buffered.append(parts)
        self._buffered_bytes += sum(map(len, parts))
        while self._buffered_bytes > MAX_BUFFERED and len(self._buffered) > 1:
            self._buffered_bytes -= sum(map(len, self._buffered.popleft()))

    def drop_buffered(self) -> None:
        """Drops the output that no client has received: its kernel is gone."""
        self._buffered.clear()
        self._buffered_bytes = 0

    def pause(self) -> None:
        """Stops reading from shell and stdin: too much is waiting for the host already."""
        self._set_paused(True)

    def resume(self) -> None:
        self._set_paused(False)
        if self._delivering:
            return
        self._delivering = True
        try:
            while self._held and not self._paused:
                self._on_message(*self._held.popleft())
        finally:
            self._delivering = False

    def _set_paused(self, paused: bool) -> None:
        if paused == self._paused:
            return
        self._paused = paused
        for channel in (SHELL, STDIN):
            if channel in self._ports:
                self._ports[channel].read_more(not paused)

    def _received(self, channel: int, parts: list[bytes]) -> None:
        if channel != CONTROL and (self._paused or self._held):
            self._held.append((channel, parts))
        else:
            self._on_message(channel, parts)

    def _subscribed(self) -> None:
        self._on_subscriber()
        buffered, self._buffered, self._buffered_bytes = self._buffered, deque(), 0
        for parts in buffered:
            self.send(IOPUB, parts)

    def set_heartbeat(self, beating: bool) -> None:
        """Whether heartbeats are answered, even while the host is unreachable; else it is dead."""
        if self._heartbeat is not None:
            self._heartbeat.beating = beating

    async def close(self) -> None:
        """Frees the ports. Messages already sent still reach their clients."""
        ports, heartbeat, full = self._ports, self._heartbeat, self._full
        self._reset()
        self._held.clear()
        for timer in full.values():
            timer.cancel()
        await asyncio.gather(
            *(port.close() for port in ports.values()),
            *([heartbeat.close()] if heartbeat is not None else ()),
        )


def endpoints(connection: Mapping[str, Any]) -> dict[str, str]:
    """The endpoints of a connection file, by channel name."""
    transport, ip = connection.get("transport", "tcp"), connection["ip"]
    between = "-" if transport == "ipc" else ":"
    return {
        name: f"{transport}://{ip}{between}{connection[name + '_port']}"
        for name in ("shell", "control", "stdin", "iopub", "hb")
    }

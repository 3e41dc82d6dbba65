"""The server on a keeper's socket, for clients and for daemons.

A connection begins with a hello that says which of the two it is. A client that gets the lease
exchanges the journal over its connection; a daemon's connection carries one query.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any, Dict, Optional, Protocol, Set, Union

from ..protocol import frames
from ..protocol.events import Failed, JournalEvent
from ..protocol.journal import HelloReader, Journal, encode_rejection, parse_hello
from ..protocol.peer import peer_user
from ..protocol.pump import JournalDisconnected, Pump
from ..protocol.timeouts import cancel_all, with_timeout
from .lease import Denied, Granted, KernelLease

#: Seconds for a connection to end after another one has replaced it.
REPLACED_SECONDS = 1.0


class KeeperHandler(Protocol):
    """What the server calls: a keeper."""

    def handle_query(self, query: Dict[str, Any]) -> Dict[str, Any]:
        """Does what a daemon asks for; returns the kernel's status."""

    def hello_fields(self) -> Dict[str, Any]:
        """What the hello tells a client that has just got the lease."""

    def handle_event(self, event: JournalEvent) -> None:
        """Handles an event of the client's journal; raises JournalDisconnected for nonsense."""

    async def wait_ended(self) -> None:
        """Returns when the kernel has ended and nothing is left to send."""


class KeeperServer:
    """Serves the client that has the lease, and the queries of daemons.

    Parameters
    ----------
    handler: called for queries and events.
    journal: exchanged with the client.
    secret: of the lease's first holder.
    """

    def __init__(self, handler: KeeperHandler, journal: Journal, secret: str) -> None:
        self._handler = handler
        self._journal = journal
        self._lease = KernelLease(secret, time.monotonic())
        self._pump: Optional[Pump] = None
        #: The connection that carries the journal, until it is done with it.
        self._serving: Optional[asyncio.Task[None]] = None
        self._last_attached = time.monotonic()
        self._connections: "Set[asyncio.Task[None]]" = set()

    @property
    def has_client(self) -> bool:
        """Whether a client is connected."""
        return self._pump is not None

    @property
    def holder(self) -> str:
        """Who has the lease, or had it last."""
        return self._lease.holder

    def wake(self) -> None:
        """Call it when there is something to send."""
        if self._pump is not None:
            self._pump.wake()

    def wake_soon(self) -> None:
        """Call it when there is something to send that may wait a moment."""
        if self._pump is not None:
            self._pump.wake_soon()

    def seconds_without_client(self) -> float:
        """Seconds since a client was connected. Renews the lease of a connected one: call often."""
        if self._pump is not None:
            self._lease.renew(self._lease.fence, time.monotonic())
            self._last_attached = time.monotonic()
        return time.monotonic() - self._last_attached

    def release_lease(self) -> None:
        """The client does not need the lease any more."""
        self._lease.release(self._lease.fence)

    async def close(self) -> None:
        """Ends all connections."""
        await cancel_all(self._connections)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serves one connection to the keeper's socket."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        try:
            if peer_user(writer.get_extra_info("socket")) == os.getuid():
                await self._serve(reader, writer)
        except (OSError, asyncio.TimeoutError, frames.ProtocolError):
            pass  # the client connects again
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeting, hello = HelloReader(), None
        while hello is None:
            data = await with_timeout(reader.read(frames.PIECE_BYTES), 10.0)
            if not data:
                return
            try:
                hello = greeting.feed(data)
                if hello is not None and "ask" not in hello.fields:
                    parse_hello(hello)
            except frames.ProtocolError as error:
                writer.write(encode_rejection({"reason": "PROTOCOL", "message": str(error)}))
                await writer.drain()
                return
        if "ask" in hello.fields:
            await self._answer(hello.fields, reader, writer)
        else:
            await self._attach(greeting, hello, reader, writer)

    async def _answer(
        self, query: Dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answers a daemon's query: for the kernel's status, to end it, or to announce something.

        A query to end it may carry a secret; then only the holder of the lease ends it.
        """
        fenced = "secret" in query and not self._lease.is_held_by(str(query["secret"]))
        if fenced:
            query = {"ask": "status"}
        answer = {**self._handler.handle_query(query), "fenced": fenced}
        writer.write(frames.encode(frames.Notice({"answer": answer})))
        await writer.drain()
        if query["ask"] == "end":
            await self._handler.wait_ended()
            await reader.read(1)  # until everything is cleaned up and this connection is closed

    async def _attach(
        self,
        greeting: HelloReader,
        hello: frames.Hello,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """Serves a client, if it gets the lease."""
        request = hello.fields["words"].get("lease")
        lease = self._claim(request if isinstance(request, dict) else {})
        if isinstance(lease, Denied):
            rejection = {
                "reason": "CONFLICT",
                "message": "Kernel is in use by %s." % (lease.holder or "another client"),
                "holder": lease.holder,
                "expires_in": round(lease.expires_in, 1),
            }
            writer.write(encode_rejection(rejection))
            await writer.drain()
            return
        if not await self._take_turn(lease):
            return  # the client connects again, if it is still there, and is then told
        # No await from here to the pump: only one connection ever carries the journal.
        fields = {"fence": lease.fence, "ttl": lease.ttl, **self._handler.hello_fields()}
        events = self._journal.accept(greeting, hello, fields)
        if isinstance(events[-1], Failed):
            self._journal.disconnected()
            self._serving = None
            writer.write(encode_rejection({"reason": "FAILED", "message": events[-1].problem}))
            await writer.drain()
            return
        self._pump = pump = Pump(self._journal, reader, writer, self._handler.handle_event)
        try:
            for event in events:
                self._handler.handle_event(event)
            await pump.run()
        except JournalDisconnected:
            pass
        finally:
            self._pump, self._serving = None, None
            self._last_attached = time.monotonic()
            self._journal.disconnected()

    async def _take_turn(self, lease: Granted) -> bool:
        """Ends the connection that has the journal: its link is dead, or its lease was taken over.

        Returns False if a later grant was made meanwhile, or if that connection does not end.
        """
        deadline = time.monotonic() + REPLACED_SECONDS
        while self._serving is not None:
            if time.monotonic() > deadline:
                return False
            self._serving.cancel()
            await asyncio.wait([self._serving], timeout=REPLACED_SECONDS)
            if lease.fence != self._lease.fence:
                return False
        self._serving = asyncio.current_task()
        return True

    def _claim(self, request: Dict[str, Any]) -> Union[Granted, Denied]:
        secret, holder = str(request.get("secret", "")), str(request.get("holder", ""))[:200]
        steal = bool(request.get("steal"))
        return self._lease.claim(secret, holder, time.monotonic(), steal=steal)

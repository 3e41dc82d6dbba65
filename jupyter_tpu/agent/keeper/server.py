"""Who comes to a keeper: clients, one of whom is the kernel's master, and the daemon, who asks.

A connection begins with a hello that says which of the two it is. That of whoever has the lease
carries the journal; each of the daemon's carries a question.
"""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any, Dict, Optional, Protocol, Set, Union

from ..protocol import frames
from ..protocol.journal import Event, Failed, Greeting, Journal, parse_hello, refusal
from ..protocol.peer import peer_user
from ..protocol.pump import Broken, Pump
from .lease import Denied, Granted, Lease


class KeeperHandler(Protocol):
    """Whose visitors they are: a keeper, as far as they have to do with it."""

    def answer(self, asked: Dict[str, Any]) -> Dict[str, Any]:
        """Does what the daemon asks, and says how the kernel is."""

    def welcome(self) -> Dict[str, Any]:
        """What a new master is told first."""

    def event(self, event: Event) -> None:
        """What the master's journal brings; raises Broken for what cannot be understood."""

    async def gone(self) -> None:
        """Returns when the kernel has ended and nothing is left to be told."""


class KeeperServer:
    """Lets clients in by the lease.

    Parameters
    ----------
    keeper: whose visitors they are.
    journal: for the master.
    secret: of the lease's first holder.
    """

    def __init__(self, keeper: KeeperHandler, journal: Journal, secret: str) -> None:
        self._keeper = keeper
        self._journal = journal
        self._lease = Lease(secret, time.monotonic())
        self._pump: Optional[Pump] = None
        self._serving: Optional[asyncio.Task[None]] = None  # the master's connection
        self._unattended = time.monotonic()
        self._visits: "Set[asyncio.Task[None]]" = set()

    @property
    def attended(self) -> bool:
        """Whether a master is connected."""
        return self._pump is not None

    @property
    def holder(self) -> str:
        """Who the master is, or was last."""
        return self._lease.holder

    def wake(self) -> None:
        """There is something to be sent."""
        if self._pump is not None:
            self._pump.wake()

    def away(self) -> float:
        """Seconds since a master was connected. Renews the lease of one that is: ask often."""
        if self._pump is not None:
            self._lease.renew(self._lease.fence, time.monotonic())
            self._unattended = time.monotonic()
        return time.monotonic() - self._unattended

    def leave(self) -> None:
        """The master says that it needs the lease no more."""
        self._lease.release(self._lease.fence)

    async def close(self) -> None:
        """Ends all connections."""
        for task in list(self._visits):
            task.cancel()
        await asyncio.gather(*self._visits, return_exceptions=True)

    async def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Somebody has connected to the keeper's socket."""
        task = asyncio.current_task()
        assert task is not None
        self._visits.add(task)
        task.add_done_callback(self._visits.discard)
        try:
            if peer_user(writer.get_extra_info("socket")) == os.getuid():
                await self._serve(reader, writer)
        except (OSError, asyncio.TimeoutError, frames.ProtocolError):
            pass  # the client's trouble: it connects again
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeting, hello = Greeting(), None
        while hello is None:
            data = await asyncio.wait_for(reader.read(frames.PIECE), 10.0)
            if not data:
                return
            try:
                hello = greeting.feed(data)
                if hello is not None and "ask" not in hello.words:
                    parse_hello(hello)
            except frames.ProtocolError as error:
                writer.write(refusal({"reason": "PROTOCOL", "message": str(error)}))
                await writer.drain()
                return
        if "ask" in hello.words:
            await self._answer(hello.words, reader, writer)
        else:
            await self._attach(greeting, hello, reader, writer)

    async def _answer(
        self, asked: Dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """A question of the daemon's: the kernel's status, or that it be ended or signalled.

        An end may come with the secret of who wants it: who is no longer the master ends nothing.
        """
        fenced = "secret" in asked and not self._lease.is_of(str(asked["secret"]))
        if fenced:
            asked = {"ask": "status"}
        answer = {**self._keeper.answer(asked), "fenced": fenced}
        writer.write(frames.encode(frames.Word({"answer": answer})))
        await writer.drain()
        if asked["ask"] == "end":
            await self._keeper.gone()
            await reader.read(1)  # until all is cleaned up and this connection is closed, too

    async def _attach(
        self,
        greeting: Greeting,
        hello: frames.Hello,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        """A client asks to be the master."""
        asked = hello.words["words"].get("lease")
        lease = self._claim(asked if isinstance(asked, dict) else {})
        if isinstance(lease, Denied):
            words = {
                "reason": "CONFLICT",
                "message": "Kernel is in use by %s." % (lease.holder or "another client"),
                "holder": lease.holder,
                "expires_in": round(lease.expires_in, 1),
            }
            writer.write(refusal(words))
            await writer.drain()
            return
        if self._serving is not None:
            # Fenced off: the link of whoever this was is dead, or its lease was stolen.
            self._serving.cancel()
            await asyncio.wait([self._serving], timeout=1.0)
        said = {"fence": lease.fence, "ttl": lease.ttl, **self._keeper.welcome()}
        events = self._journal.accept(greeting, hello, said)
        if isinstance(events[-1], Failed):
            writer.write(refusal({"reason": "FAILED", "message": events[-1].problem}))
            await writer.drain()
            self._journal.broken()
            return
        self._pump = pump = Pump(self._journal, reader, writer, self._keeper.event)
        self._serving = asyncio.current_task()
        try:
            for event in events:
                self._keeper.event(event)
            await pump.run()
        except Broken:
            pass
        finally:
            if self._pump is pump:
                self._pump, self._serving = None, None
                self._unattended = time.monotonic()
                self._journal.broken()

    def _claim(self, asked: Dict[str, Any]) -> Union[Granted, Denied]:
        secret, holder = str(asked.get("secret", "")), str(asked.get("holder", ""))[:200]
        steal = bool(asked.get("steal"))
        return self._lease.claim(secret, holder, time.monotonic(), steal=steal)

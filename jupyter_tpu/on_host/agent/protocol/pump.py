"""Carries a journal over one pair of streams: the I/O of the state machine, for both ends.

The streams are asyncio's, or asyncssh's, which have the same methods.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, Callable, Optional

from .events import Failed, JournalEvent, Rejected
from .frames import PIECE_BYTES, Notice, encode
from .journal import Journal

#: Seconds of silence after which a ping is sent …
PING_SECONDS = 2.0
#: … and after which the connection counts as dead.
SILENCE_SECONDS = 6.0
#: Seconds that an acknowledgement waits for other data to travel with: a packet of its own costs
#: both ends, and sshd, more than the message did.
ACK_SECONDS = 0.02
#: Seconds that what may wait does so for what comes next, to travel with it, for the same reason: a
#: short cell is five messages within this time, of which the user waits for the last ones.
GATHER_SECONDS = 0.005


class JournalDisconnected(ConnectionError):
    """The journal's connection ended; the message says why. The journal itself continues."""


class Pump:
    """One connection of a journal, from its hello to its end.

    Parameters
    ----------
    journal: already connecting or accepted.
    on_event: called for each event, in order.
    """

    def __init__(
        self,
        journal: Journal,
        reader: Any,
        writer: Any,
        on_event: Callable[[JournalEvent], None],
        *,
        ping: float = PING_SECONDS,
        silence: float = SILENCE_SECONDS,
    ) -> None:
        self._journal = journal
        self._reader = reader
        self._writer = writer
        self._on_event = on_event
        self._ping = ping
        self._silence = silence
        self._wake = asyncio.Event()
        self._acks_due = False  # acknowledgements have waited long enough
        self._ack_timer: Optional[asyncio.TimerHandle] = None
        self._gathering: Optional[asyncio.TimerHandle] = None
        self._heard = time.monotonic()
        self._end = ""

    def wake(self) -> None:
        """Call it when there is something to send."""
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        self._wake.set()

    def wake_soon(self) -> None:
        """Call it when there is something to send that may wait a moment."""
        if self._gathering is None:
            loop = asyncio.get_running_loop()
            self._gathering = loop.call_later(GATHER_SECONDS, self.wake)

    def flush(self) -> None:
        """Sends what is waiting now, before the connection is closed on purpose."""
        self._writer.write(self._journal.data_to_send())

    async def run(self) -> None:
        """Runs until the connection ends; never returns.

        Raises :class:`JournalDisconnected`, or what *on_event* raises. The streams are closed then.
        The caller calls :meth:`Journal.disconnected`.
        """
        work = (self._read(), self._write(), self._watch())
        tasks = [asyncio.ensure_future(part) for part in work]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except OSError as error:
            raise JournalDisconnected(str(error) or type(error).__name__) from error
        finally:
            for timer in (self._ack_timer, self._gathering):
                if timer is not None:
                    timer.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._writer.close()

    async def _read(self) -> None:
        while True:
            data = await self._reader.read(4 * PIECE_BYTES)
            if not data:
                raise JournalDisconnected("the peer closed the connection")
            self._heard = time.monotonic()
            for event in self._journal.receive_data(data):
                self._on_event(event)
                if isinstance(event, Failed):
                    # The peer has to know it, or it would try again forever.
                    self._writer.write(encode(Notice({"failed": event.problem})))
                    raise JournalDisconnected(event.problem)
                if isinstance(event, Rejected):
                    raise JournalDisconnected("refused")
            self._wake.set()

    async def _write(self) -> None:
        while True:
            data = self._journal.data_to_send(acks=self._acks_due)
            self._acks_due = False
            if data:
                self._writer.write(data)
                await self._writer.drain()
            else:
                if self._journal.ack_due and self._ack_timer is None:
                    loop = asyncio.get_running_loop()
                    self._ack_timer = loop.call_later(ACK_SECONDS, self._acknowledge)
                await self._wake.wait()
                self._wake.clear()

    def _acknowledge(self) -> None:
        self._ack_timer, self._acks_due = None, True
        self._wake.set()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self._ping)
            silent = time.monotonic() - self._heard
            if silent >= self._silence:
                raise JournalDisconnected("no data from the peer for %.0f s" % silent)
            if silent >= self._ping:
                self._journal.ping(0)
                self._wake.set()

"""This computer's end of a transfer: it runs in a thread, and reads and writes over a stream of the
link to the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from ..on_host.files.messages import CHUNK_BYTES, TransferFailure, TransferPeer, failure

T = TypeVar("T")


class TransferStream(Protocol):
    """A command's input and output; ``ssh.stream.CommandStream`` is one."""

    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> bool: ...


async def exchange(
    stream: TransferStream, work: Callable[[TransferPeer], T], *, answers: bool = True
) -> T:
    """The result of *work*, in a thread.

    answers: whether *work* reads anything. If not, what the host sends is left in the stream.

    Raises `TransferFailure`, and what the stream does.
    """
    here, there = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=there)
    ending = _in_thread(lambda: _work(here, work))
    pumps = [asyncio.create_task(_pump_out(reader, stream))]
    if answers:
        pumps.append(asyncio.create_task(_pump_in(stream, writer)))
    tasks: set[asyncio.Future[Any]] = {ending, *pumps}
    running = tasks
    try:
        while ending in running:
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            failed = any(pump in done and pump.exception() for pump in pumps)
            if ending in running and (failed or not answers):
                writer.close()  # the thread learns of it
        try:
            result = ending.result()
            if not answers:
                await pumps[0]  # what was written is on its way
            return result
        except TransferFailure as error:
            if error.code == "LOST":
                for pump in pumps:
                    if pump.done() and (cause := pump.exception()):
                        raise cause from None
            raise
    finally:
        writer.close()
        for pump in pumps:
            pump.cancel()
        await asyncio.wait(tasks)
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def _in_thread(call: Callable[[], T]) -> asyncio.Future[T]:
    """The result of *call*. The threads of `asyncio.to_thread` are few, and for what is short: the
    process waits for them when it ends.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, name="transfer", daemon=True).start()
    return asyncio.wrap_future(result)


def _work(here: socket.socket, work: Callable[[TransferPeer], T]) -> T:
    with peer_over(here) as peer:
        try:
            return work(peer)
        except OSError as error:
            raise failure(error, error.filename or b"") from None
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
            raise TransferFailure("PROTOCOL") from None


@contextlib.contextmanager
def peer_over(end: socket.socket) -> Iterator[TransferPeer]:
    """The peer behind a socket, which is closed then."""
    with end, end.makefile("rb") as reader:
        writer = end.makefile("wb")
        try:
            yield TransferPeer(reader, writer)
        finally:
            with contextlib.suppress(OSError):
                writer.close()


async def _pump_out(reader: asyncio.StreamReader, stream: TransferStream) -> None:
    while data := await reader.read(CHUNK_BYTES):
        if not await stream.write(data):
            return


async def _pump_in(stream: TransferStream, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await stream.read():
            writer.write(data)
            await writer.drain()
    writer.close()

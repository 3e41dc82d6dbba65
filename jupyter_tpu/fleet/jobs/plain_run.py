"""Starts a command on a host over SSH alone: a host without an agent needs none for a short one.

What takes longer is handed over to the agent, which is started then (`agent.daemon.handed_over`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from ...links import Link
from ...ssh.host_program import argument
from ...ssh.stream import CommandStream

#: Seconds from its start after which a command is handed over.
SOON = 2.0

_PROGRAM = "fleet.jobs.run_on_host"


class PlainRun:
    """One command, until it has ended or is left to the agent.

    id: of the run, for the agent. received: as of `FollowedRun`.

    Attributes
    ----------
    asked: whether the host may have been asked to start it; started: it has.
    offset: bytes of its output that were received.
    """

    def __init__(
        self, id: str, request: dict[str, Any], received: Callable[[int, bytes], Awaitable[None]]
    ) -> None:
        self.asked = self.started = False
        self.offset = 0
        self._id = id
        self._request = request
        self._received = received
        self._leaving = asyncio.Event()
        self._stopping = False
        self._stream: CommandStream | None = None

    async def stop(self) -> bool:
        """Has it stopped where it runs; False if it is not followed here (any more)."""
        self._stopping = True
        return self._stream is not None and await self._stream.write(b"s")

    def leave(self) -> None:
        """Leaves it to the agent now."""
        self._leaving.set()

    async def follow(self, link: Link, started: Callable[[], None]) -> dict[str, Any] | None:
        """Its end, as the agent has it; None: ask the agent. Calls *started* when it runs."""
        async with link.stream(
            ["sh", "-c", 'exec python3 -I -S -c "$0"', argument(_PROGRAM)]
        ) as stream:
            self.asked = True
            await stream.write(self._encoded())
            self._stream = stream
            try:
                return await self._read(stream, started)
            finally:
                self._stream = None

    async def _read(
        self, stream: CommandStream, started: Callable[[], None]
    ) -> dict[str, Any] | None:
        until: float | None = None
        while (line := await self._line(stream, until)) is not None:
            word, *more = line.split() or [b""]
            if word == b"started":
                self.started = True
                until = asyncio.get_running_loop().time() + SOON
                started()
            elif word == b"output":
                number, size = map(int, more)
                data = await stream.read_exactly(size)
                if len(data) < size:
                    return None
                self.offset += size
                await self._received(number, data)
            elif word == b"ended":
                await stream.write(b".")
                return _end(*more)
            else:
                if word == b"agent":
                    self.asked = False
                return None
        return None

    async def _line(self, stream: CommandStream, until: float | None) -> bytes | None:
        """What it says next; None if it is left before, or at the time *until*."""
        loop = asyncio.get_running_loop()
        reading = asyncio.ensure_future(stream.read_line())
        leaving = asyncio.ensure_future(self._leaving.wait())
        limit = None if until is None or self._stopping else max(0.0, until - loop.time())
        try:
            await asyncio.wait(
                {reading, leaving}, timeout=limit, return_when=asyncio.FIRST_COMPLETED
            )
            return await reading if reading.done() else None
        finally:
            leaving.cancel()
            reading.cancel()

    def _encoded(self) -> bytes:
        request = self._request
        limit, variables = request.get("limit"), request.get("env") or {}
        words = [
            self._id,
            request.get("cwd") or "",
            "" if limit is None else str(limit),
            "1" if request.get("input") else "",
            request.get("python") or "",
            str(len(variables)),
            *(f"{name}={value}" for name, value in variables.items()),
            *request["command"],
        ]
        data = "\0".join(words).encode("utf-8", "surrogateescape")
        return b"%d\n%s" % (len(data), data)


def _end(code: bytes, number: bytes, cause: bytes, seconds: bytes) -> dict[str, Any]:
    return {
        "code": int(code) if int(number) < 0 else None,
        "signal": int(number) if int(number) >= 0 else None,
        "cause": cause.decode().strip("-"),
        "seconds": float(seconds),
        "message": "",
    }

"""Runs that another program hands over to the agent: their sockets."""

from __future__ import annotations

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_tpu.agent.daemon.handed_over import _Process


@pytest.mark.asyncio
async def test_a_socket_with_the_number_of_an_earlier_one_is_looked_at() -> None:
    loop = asyncio.get_running_loop()
    first, other = socket.socketpair()
    first.setblocking(False)
    number = first.fileno()
    handover: Any = SimpleNamespace(connection=first, pid=1)
    process = _Process(handover)
    process.connection, _ = await loop.create_unix_connection(asyncio.Protocol, sock=first)
    process.close()
    await asyncio.sleep(0)  # the event loop closes it
    other.close()
    mine, theirs = socket.socketpair()
    assert number in (mine.fileno(), theirs.fileno())
    if mine.fileno() != number:
        mine, theirs = theirs, mine
    reader, writer = await asyncio.open_unix_connection(sock=mine)
    theirs.sendall(b"ended\n")
    async with asyncio.timeout(10):
        assert await reader.readline() == b"ended\n"
    writer.close()
    theirs.close()

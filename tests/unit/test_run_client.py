"""What the keeper of a run may answer, and what is refused: a host can send anything."""

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from jupyter_tpu.on_host.agent.protocol.run_client import (
    LONGEST_OUTPUT_BYTES,
    RunClient,
    RunRefused,
    SocketStream,
)


@pytest_asyncio.fixture
async def peer() -> AsyncIterator[tuple[RunClient, socket.socket]]:
    """A client, and the other end of its connection."""
    ours, theirs = socket.socketpair()
    client = RunClient(SocketStream(*await asyncio.open_unix_connection(sock=ours)))
    with theirs:
        yield client, theirs
    client.close()


@pytest.mark.parametrize(
    "answer",
    [
        b"output 3 1\nx",
        b"output 1 -1\n",
        b"output 1 %d\n" % (LONGEST_OUTPUT_BYTES + 1),
        b"output 1\n",
        b"ended zero -1 - 1.0\n",
        b"ended 0 -1\n",
        b"ended 0 -1 \xff 1.0\n",
        b"reads 1\n",
        b"stopped\n",
        b"started\n",
        b"\n",
    ],
)
async def test_an_answer_that_can_not_be_is_refused(peer, answer):
    client, keeper = peer
    keeper.sendall(b"running 7 0.1 /a path\n")
    await client.begin()
    assert (client.pid, client.socket) == (7, "/a path")
    keeper.sendall(answer)
    with pytest.raises(ValueError, match=r"."):
        await client.read(0)


@pytest.mark.parametrize("answer", [b"running 1\n", b"running one 0.1 /p\n", b"welcome a b c\n"])
async def test_a_greeting_that_can_not_be_is_refused(peer, answer):
    client, keeper = peer
    keeper.sendall(answer)
    with pytest.raises(ValueError, match=r"."):
        await client.begin()


@pytest.mark.parametrize("answer", [b"", b"output 1 5\nhal", b"nex"])
async def test_a_connection_that_ends_in_the_middle_is_lost(peer, answer):
    client, keeper = peer
    keeper.sendall(b"running 7 0.1 /p\n")
    await client.begin()
    keeper.sendall(answer)
    keeper.shutdown(socket.SHUT_WR)
    with pytest.raises(ConnectionError):
        await client.read(0)
    with pytest.raises(ConnectionError):
        await client.write(0, b"x", False)


async def test_why_a_program_was_not_started_is_told(peer):
    client, keeper = peer
    keeper.sendall(b"refused program 7 Argument list too long\n")
    with pytest.raises(RunRefused) as caught:
        await client.begin()
    end = caught.value.end("train")
    assert end["code"] == 126
    assert end["message"] == "On the host: Argument list too long."


async def test_the_first_question_is_asked_with_the_order(peer):
    client, keeper = peer
    keeper.sendall(b"running 7 0.1 /p\noutput 1 2\nhi" + b"ended 0 -1 - 0.5\n")
    await client.begin(b"5\norder", 0, 2.0)
    output, size, ended = await client.read(0)
    assert (output, size, ended["code"]) == ([(1, b"hi")], 2, 0)
    assert keeper.recv(100) == b"5\norderread 0 2.000\n"

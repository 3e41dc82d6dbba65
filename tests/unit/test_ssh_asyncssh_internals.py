"""Each private part of asyncssh that we use is there, in the asyncssh that is installed."""

import ast
import asyncio
import re
from pathlib import Path
from typing import Any

import asyncssh
import pytest
import pytest_asyncio

from jupyter_tpu.ssh import asyncssh_internals, gcm_packets
from jupyter_tpu.ssh.asyncssh_internals import INTERNALS
from jupyter_tpu.ssh.transport import ChannelTransport

NAMES = {re.split(r"[:(]", part)[0] for internal in INTERNALS for part in internal.parts}
SSH = Path(asyncssh_internals.__file__).parent


class Server(asyncssh.SSHServer):
    """Lets everybody in; what listens at any port sends FLOOD bytes for each byte it gets."""

    def begin_auth(self, username: str) -> bool:
        return False

    def connection_requested(self, *_: Any) -> Any:
        return Flood()


FLOOD = 4 << 20
WINDOW = 256 << 10


class Flood(asyncssh.SSHTCPSession):
    def connection_made(self, chan: Any) -> None:
        self.channel = chan

    def data_received(self, data: bytes, datatype: Any) -> None:
        self.channel.write(bytes(FLOOD))


async def connection(server: asyncssh.SSHAcceptor) -> asyncssh.SSHClientConnection:
    return await asyncssh.connect(
        "127.0.0.1",
        server.get_port(),
        config=None,
        known_hosts=None,
        client_keys=None,
        agent_path=None,
        encryption_algs=["aes128-gcm@openssh.com"],
    )


@pytest_asyncio.fixture
async def server():
    key = asyncssh.generate_private_key("ssh-ed25519")
    async with asyncssh.listen(
        "127.0.0.1", 0, server_factory=Server, server_host_keys=[key]
    ) as server:
        yield server


async def test_asyncssh_has_all_of_them():
    assert await asyncssh_internals.missing_parts() == {}


@pytest.mark.parametrize(
    ("part", "fits"),
    [
        ("count", True),
        ("count: int", True),
        ("count: str", False),
        ("add(number)", True),
        ("add(number, other)", False),
        ("add(number, handler=)", False),
        ("count()", False),
        ("gone", False),
    ],
)
def test_a_part_of_another_shape_counts_as_missing(part, fits):
    class Thing:
        count = 1

        def add(self, number: int) -> None: ...

    assert asyncssh_internals._has(Thing(), part) == fits


def test_no_other_private_part_is_used():
    """In the modules that handle asyncssh's objects, by the names these have there."""
    theirs = {"ssh", "_ssh", "channel", "_channel", "encryption", "cipher", "options", "config"}
    for path in (*SSH.glob("*.py"), *(SSH.parent / "links").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Attribute) or not node.attr.startswith("_"):
                continue
            of = node.value
            holder = of.attr if isinstance(of, ast.Attribute) else getattr(of, "id", "")
            if holder in theirs:
                assert node.attr in NAMES, f"{path.name} uses {holder}.{node.attr}"
                assert path.name in ("asyncssh_internals.py", "gcm_packets.py")


@pytest.mark.parametrize("kind", ["openssh", "pkcs8-pem", "pkcs1-pem"])
def test_the_error_for_a_key_with_a_passphrase_says_so(kind):
    key = asyncssh.generate_private_key("ecdsa-sha2-nistp256")
    with pytest.raises(asyncssh.KeyImportError, match=r"(?i)passphrase"):
        asyncssh.import_private_key(key.export_private_key(kind, passphrase="secret"))


async def test_connection_lost_ends_channels_with_an_error(server):
    ended: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    class Session(asyncssh.SSHTCPSession):
        def connection_lost(self, exc: Exception | None) -> None:
            ended.set_result(exc)

    async with await connection(server) as ssh:
        await ssh.create_connection(Session, "nowhere", 1)
        asyncssh_internals.drop(ssh)
        async with asyncio.timeout(20):
            assert isinstance(await ended, asyncssh.ConnectionLost)


@pytest.mark.parametrize("short_way", [False, True], ids=["asyncssh's packets", "our packets"])
async def test_a_slow_reader_makes_a_channel_keep_two_windows_at_most(server, short_way):
    """`ChannelTransport` relies on when a paused channel opens its window again."""
    got = most = 0

    class Slow(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            nonlocal got
            got += len(data)
            self.transport.pause_reading()

    async with await connection(server) as ssh, asyncio.timeout(30):
        if short_way:
            gcm_packets.speed_up(ssh)
        reading = ChannelTransport(Slow())
        await ssh.create_connection(reading.session, "nowhere", 1, window=WINDOW)
        reading.write(b".")
        while got < FLOOD:
            # The answer comes after all that the server sends while the window is open.
            other, _ = await ssh.create_connection(asyncssh.SSHTCPSession, "nowhere", 1)
            other.close()
            before = got
            reading.resume_reading()
            most = max(most, got - before)  # what the channel had kept
    assert WINDOW / 2 < most <= 2 * WINDOW

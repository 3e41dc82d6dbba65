"""Tunnels to emulated hosts: bytes, breaks, restarts, and what is told apart.

The servers that tunnels lead to run in this process and listen on a host's own address: emulated
hosts share this machine's network.
"""

import asyncio
import contextlib
import hashlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from ports import free_port
from refusals import raises
from stormy_host import line_to
from waiting import eventually

from jupyter_tpu.cloud import CloudTPU, Target
from jupyter_tpu.cloud.tpu.nodes import parse_node_path
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.forwarding.tunnels import ADDRESSES_VARIABLE
from jupyter_tpu.fleet.models import Change, OpenTunnel, Tunnel
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import HostName, Link, Links, LinkState
from jupyter_tpu.ssh import Keepalive

LIMIT = 60.0  # seconds for anything
ZONE = "us-central1-a"


class Server:
    """A fleet as one Jupyter server has it; *folder* outlives it."""

    def __init__(self, state_file: Path, folder: Path) -> None:
        self._state_file = state_file
        self._folder = folder

    async def __aenter__(self) -> Fleet:
        self.links = Links(
            CloudTPU(Target(emulator=str(self._state_file))), keepalive=Keepalive(1, 2)
        )
        self.fleet = await Fleet.open(
            self.links, KernelSpecs(self._folder / "kernels"), self._folder / "fleet.sqlite"
        )
        return self.fleet

    async def __aexit__(self, *_: object) -> None:
        await self.fleet.close()
        await self.links.close()
        await self.links.cloud.close()


@pytest.fixture
def server(emulator: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path / "data"))
    return Server(emulator.state_file, tmp_path)


@pytest_asyncio.fixture
async def fleet(server: Server) -> AsyncIterator[Fleet]:
    async with server as fleet:
        yield fleet


@pytest.fixture(scope="module")
def tpu(emulator: Any) -> Iterator[dict[str, Any]]:
    """A pod of four hosts for the tests that leave it as it was."""
    with emulator.tpu("tunnels", "v5litepod-16", ZONE) as node:
        yield node


def name_of(tpu: dict[str, Any]) -> str:
    return tpu["name"].rpartition("/")[2]


def internal(tpu: dict[str, Any], host: int = 0) -> str:
    return tpu["networkEndpoints"][host]["ipAddress"]


def link_to(server: Server, tpu: dict[str, Any]) -> Link:
    """The server's link to host 0."""
    return server.links.get(HostName(parse_node_path(tpu["name"]), 0))


Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def listening(handler: Handler, address: str) -> AsyncIterator[int]:
    """A server on *address* of a host; gives its port."""
    started = await asyncio.start_server(handler, address, 0)
    try:
        yield started.sockets[0].getsockname()[1]
    finally:
        started.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Gives everything back, then says how much it was."""
    count = 0
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            count += len(data)
            writer.write(data)
            await writer.drain()
        writer.write(f"|{count}".encode())
        writer.close()


async def exchange(port: int, data: bytes, address: str = "127.0.0.1") -> bytes:
    """Sends *data* and its end, and reads to the end."""
    reader, writer = await asyncio.open_connection(address, port)

    async def send() -> None:
        writer.write(data)
        await writer.drain()
        writer.write_eof()

    _, answer = await asyncio.wait_for(asyncio.gather(send(), reader.read()), LIMIT)
    writer.close()
    return answer


async def until(
    fleet: Fleet, id: str, condition: Callable[[Tunnel], bool], limit: float = LIMIT
) -> Tunnel:
    """The tunnel as an event tells it, as soon as *condition* holds."""
    met: asyncio.Future[Tunnel] = asyncio.get_running_loop().create_future()

    def on_change(change: Change) -> None:
        if change.tunnel and change.id == id and condition(change.tunnel) and not met.done():
            met.set_result(change.tunnel)

    unsubscribe = fleet.subscribe(on_change)
    try:
        for tunnel in await fleet.tunnels.all():
            if tunnel.id == id and condition(tunnel):
                return tunnel
        return await asyncio.wait_for(met, limit)
    except TimeoutError:
        raise AssertionError(f"not so: {await fleet.tunnels.all()}") from None
    finally:
        unsubscribe()


def listeners(port: int) -> set[str]:
    """The addresses on which somebody listens on *port*, as Linux writes them."""
    addresses = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            address, _, here = line.split()[1].rpartition(":")
            if int(here, 16) == port and line.split()[3] == "0A":
                addresses.add(address)
    return addresses


# ---- bytes -------------------------------------------------------------------------------------


async def test_bytes_arrive_right_both_ways_and_each_end_may_finish_first(fleet, tpu):
    data = os.urandom(5_000_000)
    async with listening(echo, internal(tpu)) as port:
        tunnel = await fleet.tunnels.open(name_of(tpu), OpenTunnel(port=port))
        assert (tunnel.host, tunnel.port, tunnel.address) == (0, port, "127.0.0.1")
        answer = await exchange(tunnel.local_port, data)
        assert answer == data + f"|{len(data)}".encode()
        current = await until(fleet, tunnel.id, lambda current: current.connections == 0)
        assert current.state == "open"
        assert current.problem is None
        assert (current.sent, current.received) == (len(data), len(answer))


async def test_many_connections_at_once_do_not_mix(fleet, tpu):
    async with listening(echo, internal(tpu)) as port:
        tunnel = await fleet.tunnels.open(name_of(tpu), OpenTunnel(port=port))
        payloads = [os.urandom(1 + 777 * number) for number in range(100)]
        answers = await asyncio.gather(
            *(exchange(tunnel.local_port, payload) for payload in payloads)
        )
        assert answers == [payload + f"|{len(payload)}".encode() for payload in payloads]


async def test_a_reader_that_does_not_read_stops_the_sender_and_not_the_others(fleet, tpu):
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        with contextlib.suppress(OSError):
            while True:
                writer.write(bytes(65536))
                await writer.drain()
                sent += 65536

    async with listening(flood, internal(tpu)) as port, listening(echo, internal(tpu)) as other:
        tunnel = await fleet.tunnels.open(name_of(tpu), OpenTunnel(port=port))
        beside = await fleet.tunnels.open(name_of(tpu), OpenTunnel(port=other))
        reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.local_port, limit=1000)
        await reader.readexactly(1000)
        before, exchanges = -1, 0
        while exchanges < 30:  # in which nothing else moved, on the same way
            exchanges = exchanges + 1 if sent == before else 0
            before = sent
            assert sent < 40 << 20, "windows and buffers are far smaller"
            assert await exchange(beside.local_port, b"x") == b"x|1"
        writer.close()


async def test_each_host_of_a_pod_has_its_own_tunnels(fleet, tpu):
    async def name(host: int, writer: asyncio.StreamWriter) -> None:
        writer.write(f"host {host}".encode())
        writer.close()

    async with contextlib.AsyncExitStack() as stack:
        ports = [
            await stack.enter_async_context(
                listening(lambda _, writer, host=host: name(host, writer), internal(tpu, host))
            )
            for host in range(4)
        ]
        for host, port in enumerate(ports):
            request = OpenTunnel(port=port, host=host)
            tunnel = await fleet.tunnels.open(name_of(tpu), request)
            assert await exchange(tunnel.local_port, b"") == f"host {host}".encode()
        listed = await fleet.tunnels.list(f"{ZONE}~{name_of(tpu)}")
        assert [(tunnel.host, tunnel.port) for tunnel in listed] == list(enumerate(ports))


# ---- what can not be, and what went wrong ------------------------------------------------------


async def refusal(fleet: Fleet, tpu: dict[str, Any], **options: Any) -> TPUError:
    with pytest.raises(TPUError) as caught:
        await fleet.tunnels.open(name_of(tpu), OpenTunnel(**options))
    return caught.value


@pytest.mark.parametrize("port", [0, 70000, -1])
async def test_an_invalid_port_is_an_error(fleet, tpu, port):
    for options in ({"port": port}, {"port": 8888, "local_port": port}):
        error = await refusal(fleet, tpu, **options)
        assert error.reason is Reason.INVALID
        assert f"{port} is not a port" in error.message
        assert "1 to 65535" in error.hint
    assert await fleet.tunnels.all() == []


async def test_a_host_that_is_not_there_is_an_error(fleet, tpu):
    error = await refusal(fleet, tpu, port=8888, host=4)
    assert error.reason is Reason.INVALID
    assert "has no host 4." in error.message


async def test_a_local_port_in_use_and_a_dead_port_on_the_host_are_different_errors(fleet, tpu):
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        error = await refusal(fleet, tpu, port=9, local_port=taken)
        assert error.reason is Reason.CONFLICT
        assert error.message == f"Port {taken} on this machine is in use by another program."
    assert await fleet.tunnels.all() == []

    tunnel = await fleet.tunnels.open(name_of(tpu), OpenTunnel(port=9))
    with pytest.raises(ConnectionResetError):
        await exchange(tunnel.local_port, b"")
    current = await until(fleet, tunnel.id, lambda current: current.problem is not None)
    assert (current.state, current.problem.reason) == ("open", Reason.NOT_FOUND)
    assert current.problem.message == f"No server is listening on port 9 of {name_of(tpu)}."


async def test_a_dead_port_that_comes_alive_is_reached_through_the_same_tunnel(fleet, tpu):
    async with listening(echo, internal(tpu)) as port:
        pass
    tunnel = await fleet.tunnels.open(name_of(tpu), OpenTunnel(port=port))
    with pytest.raises(ConnectionResetError):
        await exchange(tunnel.local_port, b"")
    started = await asyncio.start_server(echo, internal(tpu), port)
    assert await exchange(tunnel.local_port, b"x") == b"x|1"
    await until(fleet, tunnel.id, lambda told: told.problem is None)
    started.close()


async def test_two_tunnels_on_one_port_are_refused_and_the_same_twice_is_one(fleet, tpu):
    first = await fleet.tunnels.open(name_of(tpu), OpenTunnel(port=8888))
    again = await fleet.tunnels.open(name_of(tpu), OpenTunnel(port=8888))
    assert again.id == first.id
    error = await refusal(fleet, tpu, port=7777, local_port=first.local_port)
    assert error.reason is Reason.CONFLICT
    assert f"used by the tunnel to port 8888 of {name_of(tpu)}" in error.message
    local = free_port()
    other = await fleet.tunnels.open(name_of(tpu), OpenTunnel(port=8888, local_port=local))
    assert (other.local_port, other.id != first.id) == (local, True)
    assert len(await fleet.tunnels.all()) == 2


async def test_a_tunnel_has_the_ports_own_number_if_it_is_free_and_else_says_why_not(
    fleet, tpu, monkeypatch
):
    async def opened(port: int, host: int = 0) -> Tunnel:
        return await fleet.tunnels.open(name_of(tpu), OpenTunnel(port=port, host=host))

    async with listening(echo, internal(tpu)) as port, listening(echo, internal(tpu)) as other:
        first = await opened(other)
        assert first.local_port != other
        assert first.local_port_reason == "An emulated host shares this machine's ports."
        assert await exchange(first.local_port, b"x") == b"x|1"  # its link is up and stays

        # These servers listen on the host's own address: as with a real host, their numbers are
        # free on localhost. What is said of the cloud decides only about the local port now.
        with monkeypatch.context() as patch:
            patch.setattr(CloudTPU, "emulated", property(lambda _: False))
            tunnel = await opened(port)
            assert (tunnel.local_port, tunnel.local_port_reason) == (port, "")
            assert await exchange(port, b"x") == b"x|1"

            second = await opened(port, host=1)
            assert second.local_port != port
            reason = f"Local port {port} is used by the tunnel to port {port} of {name_of(tpu)}."
            assert second.local_port_reason == reason
            again = await opened(port, host=1)
            assert (again.id, again.local_port_reason) == (second.id, reason)

            with socket.create_server(("127.0.0.1", 0)) as program:
                taken = program.getsockname()[1]
                third = await opened(taken)
            assert third.local_port != taken
            reason = f"Port {taken} on this machine is in use by another program."
            assert third.local_port_reason == reason


async def test_a_tunnel_listens_on_loopback_alone_unless_that_was_allowed(fleet, tpu, monkeypatch):
    tunnel = await fleet.tunnels.open(name_of(tpu), OpenTunnel(port=8888))
    assert listeners(tunnel.local_port) == {"0100007F", "0" * 24 + "01000000"}  # 127.0.0.1, ::1

    for address in ("0.0.0.0", "::", "example.com", ""):
        error = await refusal(fleet, tpu, port=8889, address=address)
        assert error.reason is Reason.INVALID
        assert ADDRESSES_VARIABLE in error.hint
    monkeypatch.setenv(ADDRESSES_VARIABLE, "127.9.9.9")
    async with listening(echo, internal(tpu)) as port:
        wide = await fleet.tunnels.open(name_of(tpu), OpenTunnel(port=port, address="127.9.9.9"))
        assert await exchange(wide.local_port, b"x", "127.9.9.9") == b"x|1"
        with pytest.raises(ConnectionRefusedError):
            await exchange(wide.local_port, b"x")


async def test_a_tpu_that_is_not_ready_or_not_there_gets_no_tunnel(fleet, create_tpu):
    node = await asyncio.to_thread(create_tpu)
    await fleet.operations.wait((await fleet.stop(name_of(node))).id)
    error = await refusal(fleet, node, port=8888)
    assert (error.reason, error.hint) == (Reason.CONFLICT, "Start it first.")
    with raises(Reason.NOT_FOUND):
        await fleet.tunnels.open("nothing", OpenTunnel(port=8888))


# ---- slow lines --------------------------------------------------------------------------------


async def test_on_a_slow_line_what_shrinks_is_compressed_and_what_does_not_is_not(
    fleet, tpu, emulator
):
    text, noise = b"step 1200 loss 0.3141 accuracy 0.92\n" * 40_000, os.urandom(3 << 19)
    saying = text

    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(saying)
        writer.close()

    with line_to(emulator, name_of(tpu)) as line:
        line.rate = 1e6
        async with listening(say, internal(tpu)) as port:
            tunnel = await fleet.tunnels.open(name_of(tpu), OpenTunnel(port=port))

            async def fetch() -> tuple[bytes, bool, int]:
                """What came, whether the next would be compressed, and the line's bytes."""
                line.count()
                came = await exchange(tunnel.local_port, b"")
                [now] = await fleet.tunnels.all()
                return came, now.compressed, line.count()[1]

            came, compressed, carried = await fetch()
            assert (came, compressed) == (text, True)
            assert carried > len(text)
            came, compressed, carried = await fetch()
            assert (came, compressed) == (text, True)
            assert carried < len(text) / 5
            saying = noise
            came, compressed, _ = await fetch()
            assert (came, compressed) == (noise, False)


# ---- the connection of their own ---------------------------------------------------------------


async def test_a_command_does_not_wait_behind_a_download(server, fleet, tpu, emulator):
    """On one connection some 3 MB that the host's system holds for it come before the answer."""
    rate, block, taken = 250e3, os.urandom(1 << 18), 0

    async def flood(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while True:
                writer.write(block)
                await writer.drain()

    async def take(reader: asyncio.StreamReader) -> None:
        nonlocal taken
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 20):
                taken += len(data)

    async with listening(flood, internal(tpu)) as port:
        with line_to(emulator, name_of(tpu)) as line:
            tunnel = await fleet.tunnels.open(name_of(tpu), OpenTunnel(port=port))
            link = link_to(server, tpu)
            reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.local_port)
            taking = asyncio.create_task(take(reader))
            await eventually(lambda: taken > 16 << 20)  # the system's buffers have grown
            line.rate = rate
            line.count()
            await asyncio.sleep(0.2)
            while line.count()[1] > 0.4 * rate:  # what was under way before
                await asyncio.sleep(0.2)
            await link.run(["true"])
            _, carried = line.count()
        writer.transport.abort()
        await taking
    assert carried < 8 * rate


async def test_a_host_that_accepts_no_other_connection_has_tunnels_all_the_same(
    server, fleet, tpu, emulator
):
    async with listening(echo, internal(tpu)) as port:
        with line_to(emulator, name_of(tpu)) as line:
            link = link_to(server, tpu)
            await link.wait_up()
            line.full()
            tunnel = await fleet.tunnels.open(name_of(tpu), OpenTunnel(port=port))
            assert await exchange(tunnel.local_port, b"x") == b"x|1"
            assert (link.state, line.flows) == (LinkState.UP, 1)


@pytest.mark.parametrize("cuts", [2, pytest.param(20, marks=pytest.mark.long)])
async def test_who_connects_again_after_a_cut_is_not_reset_a_second_time(
    server, fleet, tpu, emulator, cuts
):
    """Eight programs send and receive; after each reset they connect again at once."""
    resets, answers = [0] * 8, [0] * 8

    async def program(index: int) -> None:
        while True:
            reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.local_port)
            try:
                while True:
                    writer.write(b"x" * 10_000)
                    await reader.readexactly(10_000)
                    answers[index] += 1
            except ConnectionResetError:
                resets[index] += 1
            finally:
                writer.transport.abort()

    async def all_answered() -> None:
        before = list(answers)
        while not all(now > then for now, then in zip(answers, before, strict=True)):
            done, _ = await asyncio.wait(programs, timeout=0.05)
            assert not done, [one.exception() for one in done]

    async with listening(echo, internal(tpu)) as port:
        with line_to(emulator, name_of(tpu)) as line:
            tunnel = await fleet.tunnels.open(name_of(tpu), OpenTunnel(port=port))
            link = link_to(server, tpu)
            programs = [asyncio.create_task(program(index)) for index in range(8)]
            try:
                for cut in range(cuts):
                    async with asyncio.timeout(LIMIT):
                        await all_answered()
                        assert resets == [cut] * 8
                        (line.dead if cut % 2 else line.reset)()
                        await eventually(lambda cut=cut: min(resets) > cut)
                async with asyncio.timeout(LIMIT):
                    await link.run(["true"])
                    await all_answered()
            finally:
                for one in programs:
                    one.cancel()
                await asyncio.gather(*programs, return_exceptions=True)
    assert resets == [cuts] * 8


# ---- breaks ------------------------------------------------------------------------------------


async def test_a_cut_link_resets_what_is_open_and_the_port_stays(fleet, tpu, emulator):
    async with listening(echo, internal(tpu)) as port:
        tunnel = await fleet.tunnels.open(name_of(tpu), OpenTunnel(port=port))
        reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.local_port)
        writer.write(b"before")
        assert await asyncio.wait_for(reader.readexactly(6), LIMIT) == b"before"
        await asyncio.to_thread(emulator.inject_fault, "cut-links", node=tpu["name"])
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(), LIMIT)
        assert await exchange(tunnel.local_port, b"after") == b"after|5"
        writer.close()


@pytest.mark.parametrize("kind", ["reboot", "maintenance"])
async def test_a_host_that_reboots_comes_back_behind_the_same_port(
    server, fleet, create_tpu, emulator, kind
):
    node = await asyncio.to_thread(create_tpu)
    async with listening(echo, internal(node)) as port:
        tunnel = await fleet.tunnels.open(name_of(node), OpenTunnel(port=port))
        assert await exchange(tunnel.local_port, b"1") == b"1|1"
        link = link_to(server, node)
        before = link.address
        down = asyncio.ensure_future(
            until(fleet, tunnel.id, lambda current: current.state == "waiting")
        )
        await asyncio.sleep(0)  # it is listening
        await asyncio.to_thread(emulator.inject_fault, kind, node=node["name"])
        current = await down
        assert current.problem is not None
        # Who connects meanwhile waits.
        assert await exchange(tunnel.local_port, b"2") == b"2|1"
        assert (link.address != before) == (kind == "maintenance")
        current = await until(fleet, tunnel.id, lambda current: current.state == "open")
        assert current.local_port == tunnel.local_port


async def test_a_stopped_tpu_needs_attention_and_its_tunnel_works_when_it_was_started(
    server, fleet, create_tpu
):
    node = await asyncio.to_thread(create_tpu)
    async with listening(echo, internal(node)) as port:
        tunnel = await fleet.tunnels.open(name_of(node), OpenTunnel(port=port))
        assert await exchange(tunnel.local_port, b"1") == b"1|1"
        await fleet.operations.wait((await fleet.stop(name_of(node))).id)
        current = await until(fleet, tunnel.id, lambda current: current.state == "needs-attention")
        assert "stopped" in current.problem.message
        await fleet.operations.wait((await fleet.start(name_of(node))).id)
        await until(fleet, tunnel.id, lambda current: current.state == "open")
        link = link_to(server, node)
        assert link.state is LinkState.UP
        # Its addresses may be others.
        seen = await fleet.tpu(name_of(node))
        again = await asyncio.start_server(echo, seen.hosts[0].internal_address, 0)
        if seen.hosts[0].internal_address == internal(node):
            assert await exchange(tunnel.local_port, b"2") == b"2|1"
        again.close()


async def test_the_tunnels_of_a_deleted_tpu_are_gone(fleet, create_tpu):
    node = await asyncio.to_thread(create_tpu)
    tunnel = await fleet.tunnels.open(name_of(node), OpenTunnel(port=8888))
    gone = asyncio.Event()
    fleet.subscribe(lambda change: change.id == tunnel.id and change.gone and gone.set())
    await until(fleet, tunnel.id, lambda told: True)
    await fleet.operations.wait((await fleet.delete(name_of(node))).id)
    await asyncio.wait_for(gone.wait(), LIMIT)
    with pytest.raises(ConnectionRefusedError):
        await exchange(tunnel.local_port, b"")
    assert await fleet.tunnels.all() == []


# ---- servers that end --------------------------------------------------------------------------


async def test_the_next_server_has_the_same_tunnels_on_the_same_ports(server, tpu):
    async with listening(echo, internal(tpu, 1)) as port:
        request = OpenTunnel(port=port, host=1)
        async with server as first:
            tunnel = await first.tunnels.open(name_of(tpu), request)
            closed = await first.tunnels.open(name_of(tpu), OpenTunnel(port=8888))
            await first.tunnels.close(name_of(tpu), closed.id)
        with pytest.raises(ConnectionRefusedError):
            await exchange(tunnel.local_port, b"")
        async with server as second:
            current = await until(second, tunnel.id, lambda current: current.state == "open")
            assert current.local_port == tunnel.local_port
            assert await exchange(tunnel.local_port, b"x") == b"x|1"
            assert len(await second.tunnels.all()) == 1


async def test_a_port_that_was_taken_meanwhile_is_had_as_soon_as_it_is_free(server, tpu):
    async with listening(echo, internal(tpu)) as port:
        async with server as first:
            tunnel = await first.tunnels.open(name_of(tpu), OpenTunnel(port=port))
        thief = socket.create_server(("127.0.0.1", tunnel.local_port))
        async with server as second:
            current = await until(second, tunnel.id, lambda current: current.state == "taken")
            assert current.problem.reason is Reason.CONFLICT
            thief.close()
            await until(second, tunnel.id, lambda current: current.state == "open")
            assert await exchange(tunnel.local_port, b"x") == b"x|1"


async def test_two_servers_share_the_tunnels_and_one_takes_over_from_the_other(
    server, emulator, tmp_path, tpu
):
    other = Server(emulator.state_file, tmp_path)
    async with listening(echo, internal(tpu)) as port, other as beside:
        async with server as first:
            tunnel = await first.tunnels.open(name_of(tpu), OpenTunnel(port=port))
            current = await until(beside, tunnel.id, lambda current: current.state == "elsewhere")
            assert current.local_port == tunnel.local_port
            again = await beside.tunnels.open(name_of(tpu), OpenTunnel(port=port))
            assert again.id == tunnel.id
        await until(beside, tunnel.id, lambda current: current.state == "open")
        assert await exchange(tunnel.local_port, b"x") == b"x|1"
        async with server as first:
            # What one closes is closed at the other, too.
            await first.tunnels.close(name_of(tpu), tunnel.id)

            async def closed() -> bool:
                return not (await beside.tunnels.all() or listeners(tunnel.local_port))

            await eventually(closed)


@pytest.mark.long
async def test_gigabytes_and_thousands_of_requests_go_through_with_flat_memory(fleet, tpu):
    import psutil

    size = 1 << 30
    block = os.urandom(1 << 20)

    async def source(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            for _ in range(size // len(block)):
                writer.write(block)
                await writer.drain()
            writer.close()

    expected = hashlib.sha256(block * (size // len(block) // 64)).hexdigest()
    async with listening(source, internal(tpu)) as port, listening(echo, internal(tpu)) as other:
        tunnel = await fleet.tunnels.open(name_of(tpu), OpenTunnel(port=port))
        small = await fleet.tunnels.open(name_of(tpu), OpenTunnel(port=other))
        assert await exchange(small.local_port, b"x") == b"x|1"
        before = psutil.Process().memory_info().rss
        most = before
        reader, writer = await asyncio.open_connection("127.0.0.1", tunnel.local_port)
        for _ in range(64):
            digest = hashlib.sha256()
            for _ in range(size // len(block) // 64):
                digest.update(await asyncio.wait_for(reader.readexactly(len(block)), LIMIT))
            assert digest.hexdigest() == expected
            most = max(most, psutil.Process().memory_info().rss)
        assert await reader.read() == b""
        writer.close()
        assert most - before < 150 << 20
        for _ in range(100):
            answers = await asyncio.gather(*(exchange(small.local_port, b"x") for _ in range(100)))
            assert set(answers) == {b"x|1"}
        current = await until(fleet, small.id, lambda current: current.connections == 0)
        assert current.state == "open"
        assert psutil.Process().memory_info().rss - before < 150 << 20

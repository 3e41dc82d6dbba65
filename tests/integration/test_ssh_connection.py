"""Connections to a real OpenSSH sshd on loopback; faults are made by a proxy in between."""

import asyncio
import contextlib
import getpass
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncssh
import msgspec
import pytest
import pytest_asyncio
from fault_proxy import FaultProxy
from fleet_world import others
from own_sshd import needs_sshd, running_sshd
from ports import free_port
from refusals import raises
from waiting import eventually

from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.links import bulk
from jupyter_tpu.ssh import (
    CommandFailed,
    Forwarder,
    HostAddress,
    Keepalive,
    SSHConnection,
    asyncssh_internals,
    connect,
    ensure_key,
    fingerprint,
    proxies,
    public_key,
)
from jupyter_tpu.ssh.asyncssh_internals import OPTIONS
from jupyter_tpu.ssh.gcm_packets import speed_up
from jupyter_tpu.ssh.proxies import ProxyRoute, open_jumps, resolve_route

pytestmark = needs_sshd

QUICK = Keepalive(1.0, 2)
SLOW = Keepalive(300.0, 2)  # would not notice anything during a test


@pytest.fixture
def socket_path() -> Iterator[str]:
    """Short enough for a unix socket, which a folder of pytest's may not be."""
    with tempfile.TemporaryDirectory() as folder:
        yield f"{folder}/socket"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostAddress]:
    """A running sshd of this user's, with our key."""
    folder = tmp_path_factory.mktemp("sshd")
    key = ensure_key(folder / "id")
    (folder / "authorized").write_text(public_key(key) + "\n")
    more = "AcceptEnv NOTHING", "RekeyLimit 4M"
    with running_sshd(folder, folder / "authorized", *more) as (port, host_key):
        yield HostAddress(
            address="127.0.0.1",
            port=port,
            user=getpass.getuser(),
            host_keys=(host_key,),
            alias="tpu.42-0",
            name="my-tpu",
            identity_file=key,
        )


@pytest_asyncio.fixture
async def connection(host: HostAddress) -> AsyncIterator[SSHConnection]:
    made = await connect(host, keepalive=QUICK)
    yield made
    await made.close()


# ---- commands -------------------------------------------------------------------------------


async def test_a_commands_words_variables_input_and_folder_arrive_as_they_are(connection, tmp_path):
    odd = 'it\'s $HOME; `x` "q" *\n\\ é'
    folder = tmp_path / "a b'c"
    folder.mkdir()
    done = await connection.run(
        ["sh", "-c", 'printf "%s|%s|" "$1" "$VALUE"; cat; pwd', "sh", odd],
        env={"VALUE": odd},
        input=b"secret\0\xff",
        cwd=str(folder),
    )
    assert done.returncode == 0
    assert done.stdout == f"{odd}|{odd}|secret\0\N{REPLACEMENT CHARACTER}{folder}\n"


async def test_lines_are_shown_as_they_come_and_not_at_the_end(connection, tmp_path):
    gate = tmp_path / "gate"
    seen: list[str] = []

    def on_line(line: str) -> None:
        seen.append(line)
        if line == "first":
            gate.touch()  # the command waits for this

    script = f"echo first; until [ -e '{gate}' ]; do sleep 0.01; done; echo last >&2; printf rest"
    done = await connection.run(["sh", "-c", script], on_line=on_line, timeout=60)
    assert seen[0] == "first"
    assert sorted(seen[1:]) == ["last", "rest"]
    assert (done.stdout, done.stderr) == ("first\nrest", "last\n")


async def test_another_status_than_0_is_an_error_unless_it_is_asked_for(connection):
    with pytest.raises(CommandFailed) as caught:
        await connection.run(["sh", "-c", "echo no such thing >&2; exit 3"])
    assert caught.value.message == "sh failed on my-tpu with status 3: no such thing."
    done = await connection.run(["sh", "-c", "exit 3"], check=False)
    assert done.returncode == 3


async def test_a_command_that_ignores_its_input_is_no_error(connection):
    done = await connection.run(["true"], input=b"x" * 3_000_000)
    assert done.returncode == 0


async def test_much_output_and_much_input_pass_at_once(connection):
    data = os.urandom(1000).hex().encode() * 1000
    done = await connection.run(["cat"], input=data, timeout=60)
    assert done.stdout.encode() == data


async def test_small_answers_are_not_held_back(connection, socket_path):
    """Without TCP_NODELAY at the host's end each answer in two packets takes 40 ms."""

    async def answer(reader, writer):
        while await reader.read(100):
            for part in (b"head", b"body"):
                writer.write(part)
                await asyncio.sleep(0.001)  # two packets
        writer.close()

    times = []
    async with await asyncio.start_unix_server(answer, socket_path):
        reader, writer = await connection.open_unix(socket_path)
        for _ in range(60):
            begin = time.monotonic()
            writer.write(b"?")
            await reader.readexactly(8)
            times.append(time.monotonic() - begin)
        writer.close()
    assert sorted(times[20:])[4] < 0.03, times  # the first ones are acknowledged at once


async def test_a_connection_that_runs_a_command_anyway_runs_no_other(host, tmp_path):
    """One is run for TCP_NODELAY, which takes the client as long as half of a connection."""
    key, commands = ensure_key(tmp_path / "counted"), tmp_path / "commands"
    script = f'echo x >> {commands}; exec sh -c \\"$SSH_ORIGINAL_COMMAND\\"'
    counted = f'command="{script}" {public_key(key)}\n'
    with host.identity_file.with_name("authorized").open("a") as authorized:
        authorized.write(counted)
    other = msgspec.structs.replace(host, identity_file=key)
    made = await connect(other, command_within=0.2)
    await made.run(["echo", "mine"])
    alone = await connect(other, command_within=0.2)  # its command comes after that of `made` would
    await eventually(lambda: commands.read_text().count("x") > 1)
    assert commands.read_text() == "x\nx\n"
    await made.close()
    await alone.close()


async def test_a_command_that_takes_too_long_is_given_up_in_time(connection):
    with raises(Reason.TIMEOUT):
        await connection.run(["sleep", "600"], timeout=0.3)
    assert (await connection.run(["echo", "on"])).stdout == "on\n"


async def test_more_commands_than_sessions_wait_for_each_other(connection):
    done = await asyncio.gather(
        *(connection.run(["sh", "-c", f"sleep 0.05; echo {n}"]) for n in range(20))
    )
    assert [int(one.stdout) for one in done] == list(range(20))


async def test_a_session_that_sshd_refuses_because_there_are_too_many_is_asked_for_again(
    host, tmp_path
):
    shutil.copy(host.identity_file.with_name("authorized"), tmp_path)
    with running_sshd(tmp_path, tmp_path / "authorized", "MaxSessions 2") as (port, host_key):
        few = await connect(msgspec.structs.replace(host, port=port, host_keys=(host_key,)))
        done = await asyncio.gather(*(few.run(["echo", str(n)]) for n in range(6)))
        streamed = await asyncio.gather(*(_streamed(few, str(n)) for n in range(6)))
        await few.close()
    assert [int(one.stdout) for one in done] == list(range(6))
    assert [int(text) for text in streamed] == list(range(6))


async def _streamed(connection: SSHConnection, text: str) -> bytes:
    async with connection.stream(["echo", text]) as stream:
        return await stream.read_line()


# ---- files and sockets ----------------------------------------------------------------------


async def test_a_file_is_put_whole_with_its_mode_and_replaces_the_old_one(connection, tmp_path):
    path = tmp_path / "new folder" / "it's"
    await connection.put(b"old", str(path))
    data = os.urandom(500_000)
    await connection.put(data, str(path), 0o640)
    assert path.read_bytes() == data
    assert path.stat().st_mode & 0o777 == 0o640
    assert [item.name for item in path.parent.iterdir()] == ["it's"]


async def test_a_file_that_is_cut_short_never_takes_the_place_of_the_old_one(host, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with FaultProxy("127.0.0.1", host.port) as proxy:
        behind = await connect(msgspec.structs.replace(host, port=proxy.port), keepalive=QUICK)
        putting = asyncio.ensure_future(behind.put(b"x" * 80_000_000, str(path)))
        await eventually(lambda: list(tmp_path.glob("file.*")) or putting.done())
        assert not putting.done()
        proxy.reset()
        with pytest.raises(TPUError) as caught:
            await putting
        await behind.close()
    assert caught.value.reason is Reason.UNREACHABLE
    # sshd ends the command a moment later.
    await eventually(lambda: not list(tmp_path.glob("file.*")))
    assert path.read_bytes() == b"old"


async def test_a_path_that_cannot_be_written_is_an_error(connection, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CommandFailed):
        await connection.put(b"x", str(tmp_path / "file" / "below"))


@pytest.mark.parametrize(
    ("setting", "key_options", "ports"),
    [
        ("AllowTcpForwarding no", "", False),
        ("AllowStreamLocalForwarding no", "", True),
        *others(("DisableForwarding yes", "", False), ("PrintMotd no", "restrict ", False)),
    ],
)
async def test_unix_sockets_are_reached_where_sshd_forbids_forwarding(
    tmp_path, socket_path, setting, key_options, ports
):
    key = ensure_key(tmp_path / "id")
    (tmp_path / "authorized").write_text(f"{key_options}{public_key(key)}\n")

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(echo, socket_path)
    web = await asyncio.start_server(echo, "127.0.0.1", 0)
    with running_sshd(tmp_path, tmp_path / "authorized", setting) as (port, host_key):
        address = HostAddress(
            address="127.0.0.1",
            port=port,
            user=getpass.getuser(),
            host_keys=(host_key,),
            alias="tpu.43-0",
            name="hardened",
            identity_file=key,
        )
        connection = await connect(address, keepalive=QUICK)
        with pytest.raises(ConnectionRefusedError, match="No server is listening"):
            await connection.open_unix(f"{socket_path}-missing")
        reader, writer = await connection.open_unix(socket_path)
        data = os.urandom(3_000_000)
        writing = asyncio.ensure_future(_write(writer, data))
        assert await reader.readexactly(len(data)) == data
        await writing
        if "Disable" in setting:  # commands carry them, so that there are few at a time
            others = [await connection.open_unix(socket_path) for _ in range(5)]
            with pytest.raises(TPUError, match="forbids forwarding to Unix sockets") as error:
                await connection.open_unix(socket_path)
            assert "AllowStreamLocalForwarding yes" in error.value.hint
            assert (await connection.run(["echo", "free"])).stdout == "free\n"
            for _, other in others:
                other.close()
            await eventually(lambda: connection._carried_sockets._count == 1)
        writer.close()
        if not ports:
            listening = web.sockets[0].getsockname()[1]
            with raises(Reason.PERMISSION, "does not forward ports"):
                await connection.open_port(asyncssh.SSHTCPSession, listening)
        await connection.close()
    server.close()
    web.close()


async def _write(writer: Any, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


async def test_open_streams_do_not_take_the_places_of_commands(connection, tmp_path):
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(20)
        streams = [await connection.open_unix(str(path)) for _ in range(20)]
        assert (await connection.run(["echo", "still"], timeout=60)).stdout == "still\n"
        for _, writer in streams:
            writer.close()


# ---- who the host is, who we are ------------------------------------------------------------


async def test_a_host_with_another_key_is_refused_with_both_fingerprints(host, tmp_path):
    other = public_key(ensure_key(tmp_path / "other"))
    with raises(Reason.HOST_KEY) as caught:
        await connect(msgspec.structs.replace(host, host_keys=(other,)))
    assert fingerprint(host.host_keys[0]) in caught.value.message
    assert fingerprint(other) in caught.value.message
    assert f"ssh-keygen -R {host.alias}" in caught.value.hint


async def test_a_pinned_key_of_another_kind_does_not_let_the_host_in_either(host):
    import asyncssh

    key = asyncssh.generate_private_key("ecdsa-sha2-nistp256")
    pinned = key.export_public_key().decode().strip()
    with raises(Reason.HOST_KEY) as caught:
        await connect(msgspec.structs.replace(host, host_keys=(pinned,)))
    assert fingerprint(host.host_keys[0]) in caught.value.message


async def test_the_users_ssh_config_can_not_switch_host_key_checking_off(
    host, tmp_path, monkeypatch
):
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "config").write_text(
        "Host *\n  StrictHostKeyChecking no\n  UserKnownHostsFile none\n"
        "  HostKeyAlias x\n  Port 1\n  User nobody\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    other = public_key(ensure_key(tmp_path / "other"))
    with raises(Reason.HOST_KEY):
        await connect(msgspec.structs.replace(host, host_keys=(other,)))
    made = await connect(host)
    await made.close()


async def test_a_key_the_host_does_not_know_is_refused_with_a_hint(host, tmp_path):
    stranger = ensure_key(tmp_path / "stranger")
    with raises(Reason.PERMISSION) as caught:
        await connect(msgspec.structs.replace(host, identity_file=stranger))
    assert "OS Login" in caught.value.hint


# ---- ways and losses ------------------------------------------------------------------------


async def test_a_port_where_nothing_listens_is_reported_at_once(host):
    with raises(Reason.UNREACHABLE) as caught:
        await connect(msgspec.structs.replace(host, port=free_port()))
    assert "connection refused" in caught.value.message


async def test_a_port_that_says_nothing_is_given_up(host):
    with socket.create_server(("127.0.0.1", 0)) as silent:  # nobody accepts
        port = silent.getsockname()[1]
        with pytest.raises(TPUError) as caught:
            await connect(msgspec.structs.replace(host, port=port), limit=0.5)
    assert caught.value.reason is Reason.UNREACHABLE
    assert "no answer within 0.5 s" in caught.value.message


async def test_commands_under_way_fail_within_the_keepalives_bound_when_the_host_falls_silent(host):
    """For real, over the whole bound (3 s); the rest is for a machine that is busy."""
    with FaultProxy("127.0.0.1", host.port) as proxy:
        behind = await connect(msgspec.structs.replace(host, port=proxy.port), keepalive=QUICK)
        running = [asyncio.ensure_future(behind.run(["sleep", "100"])) for _ in range(3)]
        await behind.run(["true"])  # the others were started before it
        assert not behind.silent
        proxy.hole()
        begin = time.monotonic()
        results = await asyncio.wait_for(asyncio.gather(*running, return_exceptions=True), 60)
        took = time.monotonic() - begin
        assert [result.reason for result in results] == [Reason.UNREACHABLE] * 3
        assert took < QUICK.bound + 30  # on a busy machine
        await asyncio.wait_for(behind.wait_lost(), 60)
        await behind.close()


async def test_a_host_can_be_asked_whether_it_is_alive(host):
    with FaultProxy("127.0.0.1", host.port) as proxy:
        behind = await connect(msgspec.structs.replace(host, port=proxy.port))
        assert await behind.alive(60)
        proxy.hole()
        assert not await behind.alive(0.3)
        proxy.mend()
        assert await behind.alive(60)
        await behind.close()
        assert not await behind.alive(0.3)


async def test_a_proxy_command_leads_to_the_host(host):
    relay = (
        "import socket,sys,threading\n"
        "s=socket.create_connection(('127.0.0.1',int(sys.argv[1])))\n"
        "def up():\n"
        "  while d:=sys.stdin.buffer.raw.read(65536): s.sendall(d)\n"
        "threading.Thread(target=up,daemon=True).start()\n"
        "while d:=s.recv(65536): sys.stdout.buffer.write(d); sys.stdout.buffer.flush()\n"
    )
    command = (shutil.which("python3") or "python3", "-c", relay, str(host.port))
    made = await connect(
        msgspec.structs.replace(host, address="192.0.2.1", proxy_command=command), limit=60
    )
    assert (await made.run(["echo", "proxied"])).stdout == "proxied\n"
    await made.close()


@pytest.mark.parametrize("reader", ["asyncssh", "ssh -G"])
async def test_the_ssh_configs_way_is_taken_by_address_and_never_to_this_machine(
    reader, host, tmp_path, monkeypatch
):
    if reader == "ssh -G":
        monkeypatch.setitem(asyncssh_internals._usable, ("route", OPTIONS), False)
    config = tmp_path / "config"
    config.write_text(
        "Host 192.0.2.*\n  ProxyJump ann@bastion:2222,inner\n"
        "Host 198.51.100.7\n  ProxyCommand nc -x proxy %h %p\n"
        "Host my-tpu\n  ProxyCommand false\n"
        "Host 127.*\n  ProxyCommand false\n"
    )

    async def route(address: str) -> ProxyRoute:
        proxied = msgspec.structs.replace(host, address=address, port=22, proxy_command=("iap",))
        return await resolve_route(proxied, config)

    assert await route("192.0.2.9") == ProxyRoute(jumps=("ann@bastion:2222", "inner"))
    assert (await route("198.51.100.7")).command == ("nc", "-x", "proxy", "198.51.100.7", "22")
    assert await route("203.0.113.1") == ProxyRoute(command=("iap",))
    assert await route("127.0.0.1") == ProxyRoute(command=("iap",))
    config.write_text("Host *\n  ProxyCommand 'unclosed\n")
    assert await route("192.0.2.9") == ProxyRoute(command=("iap",))


async def test_output_that_a_callback_gets_is_not_kept_besides(connection):
    lines: list[str] = []
    code = "for i in range(20000): print(i, 'x' * 100)\nprint('the end')"
    done = await connection.run(["python3", "-c", code], on_line=lines.append)
    assert len(lines) == 20001
    assert lines[20000] == "the end"
    assert len(done.stdout) < 100_000
    assert done.stdout.endswith("\nthe end\n")


async def test_a_command_in_the_ssh_config_that_does_not_end_is_ended(host, tmp_path, monkeypatch):
    monkeypatch.setattr(proxies, "EXEC_LIMIT", 0.2)
    config = tmp_path / "config"
    pid = tmp_path / "pid"
    config.write_text(f'Match exec "echo $$ >{pid}; sleep 600; true"\n  ProxyCommand false\n')
    monkeypatch.setattr(proxies, "user_config", lambda: config)
    distant = msgspec.structs.replace(host, address="192.0.2.9")
    with raises(Reason.UNREACHABLE, "did not end within"):
        await asyncio.wait_for(connect(distant), 30)
    await eventually(lambda: not Path("/proc", pid.read_text().strip()).exists())
    config.write_text('Match exec "true"\n  ProxyCommand nc %h\n')
    assert (await resolve_route(distant)).command == ("nc", "192.0.2.9")


async def test_a_jump_host_is_gone_through_and_checked_by_the_users_own_known_hosts(
    host, tmp_path, monkeypatch
):
    folder = tmp_path / ".ssh"
    folder.mkdir()
    (folder / "config").write_text(
        f"Host bastion\n  HostName 127.0.0.1\n  Port {host.port}\n  User {host.user}\n"
        f"  IdentityFile {host.identity_file}\n  UserKnownHostsFile {folder}/known_hosts\n"
        "  Ciphers aes128-gcm@openssh.com\n"
        "Host 127.0.0.2\n  ProxyJump bastion\n"
    )
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)

    import asyncssh

    for known in (None, f"[127.0.0.1]:{host.port} {public_key(ensure_key(tmp_path / 'other'))}\n"):
        if known is not None:
            (folder / "known_hosts").write_text(known)
        async with contextlib.AsyncExitStack() as stack:
            with pytest.raises(TPUError) as caught:
                await open_jumps(("bastion",), stack)
        assert caught.value.reason is Reason.HOST_KEY
        assert "`ssh bastion`" in caught.value.hint
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{host.port} {host.host_keys[0]}\n")
    async with contextlib.AsyncExitStack() as stack:
        jump = await open_jumps(("bastion",), stack)
        assert jump is not None
        through = await asyncssh.connect(
            "127.0.0.1",
            host.port,
            tunnel=jump,
            config=None,
            username=host.user,
            client_keys=[str(host.identity_file)],
            known_hosts=([asyncssh.import_public_key(host.host_keys[0])], [], []),
            encryption_algs=["aes128-gcm@openssh.com"],
        )
        speed_up(jump)
        speed_up(through)
        data = os.urandom(4 << 20)
        async with asyncio.timeout(60):
            assert (await through.run("cat", input=data, encoding=None)).stdout == data
        through.close()
        await through.wait_closed()


# ---- packets --------------------------------------------------------------------------------


async def test_bulk_data_pass_both_ways_while_the_keys_are_renewed(connection, socket_path):
    """The host's sshd asks for new keys every 4 MB."""
    data = os.urandom(12 << 20)

    async def exchange():
        completed = await connection.run(["cat"], input=data[: 1 << 20], check=False)
        assert completed.returncode == 0

    async def echo(reader, writer):
        while part := await reader.read(1 << 20):
            writer.write(part)
            await writer.drain()
        writer.close()

    async def send(writer):
        for start in range(0, len(data), 1 << 20):
            writer.write(data[start : start + (1 << 20)])
            await writer.drain()
        writer.write_eof()

    server = await asyncio.start_unix_server(echo, socket_path)
    reader, writer = await connection.open_unix(socket_path)
    returned, *_ = await asyncio.wait_for(
        asyncio.gather(reader.read(), send(writer), exchange()), 120
    )
    assert returned == data
    writer.close()
    server.close()


async def test_a_packet_that_was_changed_on_its_way_ends_the_connection(host):
    with FaultProxy("127.0.0.1", host.port) as proxy:
        made = await connect(msgspec.structs.replace(host, port=proxy.port), keepalive=SLOW)
        proxy.garble = True
        with raises(Reason.UNREACHABLE):
            await asyncio.wait_for(made.run(["cat"], input=b"x" * 100_000), 60)
        await asyncio.wait_for(made.wait_lost(), 60)
        await made.close()


# ---- forwarded ports ------------------------------------------------------------------------

FORWARD = """
import asyncio, sys, msgspec
from pathlib import Path
from jupyter_tpu.ssh import Forwarder, HostAddress, connect

async def main():
    host = msgspec.json.decode(sys.argv[1], type=HostAddress, dec_hook=lambda _, text: Path(text))
    connection = await connect(host)
    forwarder = Forwarder(connection.open_port, int(sys.argv[2]), lambda: None)
    print(await forwarder.listen(0), flush=True)
    await connection.wait_lost()

asyncio.run(main())
"""


async def test_a_download_ends_with_a_reset_when_its_forwarder_is_killed(host):
    """A silent end would look as if all had come."""
    part = os.urandom(100_000)

    async def serve(reader, writer):
        whole = await reader.readline() == b"all\n"
        writer.write(part)
        await writer.drain()
        if not whole:
            await reader.read()  # until the connection is gone
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    where = msgspec.json.encode(host, enc_hook=str)
    forwarder = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", FORWARD, where, str(port)), stdout=-1
    )
    try:
        local = int(await asyncio.wait_for(forwarder.stdout.readline(), 60))
        reader, writer = await asyncio.open_connection("127.0.0.1", local)
        writer.write(b"all\n")
        assert await asyncio.wait_for(reader.read(), 60) == part
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", local)
        writer.write(b"part\n")
        assert await asyncio.wait_for(reader.readexactly(len(part)), 60) == part
        forwarder.kill()
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(reader.read(), 60)
    finally:
        with contextlib.suppress(ProcessLookupError):
            forwarder.kill()
        await forwarder.wait()
        server.close()


async def test_a_tunnel_whose_host_does_not_compress_is_not_shown_as_compressed(connection):
    async def say(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while True:  # 1.6 MB/s at most
                writer.write(b"step 1200 loss 0.3141 accuracy 0.92\n" * 450)
                await writer.drain()
                await asyncio.sleep(0.01)

    async def reader_of(forwarder: Forwarder) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", forwarder.local_port)
        writers.append(writer)
        return reader

    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(say, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    forwarder = Forwarder(connection.open_port, port, lambda: None, connection.open_port)
    await forwarder.listen(0)
    slow = await reader_of(forwarder)
    while not forwarder.compressed:
        assert await slow.read(1 << 16)
    await (await reader_of(forwarder)).readexactly(1)
    assert not forwarder.compressed
    await forwarder.close()
    for writer in writers:
        writer.close()
    server.close()


@contextlib.asynccontextmanager
async def bulk_connection() -> AsyncIterator[bulk.BulkConnection]:
    """One whose background work is done at the end."""
    tasks: list[asyncio.Task[None]] = []

    def run_in_background(work: Any) -> asyncio.Task[None]:
        tasks.append(asyncio.create_task(work))
        return tasks[-1]

    connection = bulk.BulkConnection(QUICK, run_in_background)
    yield connection
    connection.close()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_bulk_connection_is_opened_once_and_again_after_it_was_lost(host):
    async with bulk_connection() as spare:
        first, same = await asyncio.gather(spare.get(host), spare.get(host))
        assert first is same
        first.abort()
        await first.wait_lost()
        second = await spare.get(host)
        assert second not in (None, first)
        moved = msgspec.structs.replace(host, name="moved")
        third = await spare.get(moved)
        assert third not in (None, second)
    assert all(
        connection is not None and connection.closed for connection in (first, second, third)
    )


async def test_a_bulk_connection_that_the_host_refused_is_tried_again_when_the_link_was_up_again(
    host,
):
    with FaultProxy("127.0.0.1", host.port) as proxy:
        async with bulk_connection() as spare:
            behind = msgspec.structs.replace(host, port=proxy.port)
            proxy.full()
            assert await spare.get(behind) is None
            proxy.mend()
            assert await spare.get(behind) is None
            spare.link_up(behind)
            connection = await spare.get(behind)
            proxy.hole()
            spare.link_up(behind)  # the link was lost, and so was this
            await connection.wait_lost()


async def test_a_host_that_does_not_answer_soon_holds_nothing_up(host, monkeypatch):
    monkeypatch.setattr(bulk, "_OPEN_TIMEOUT", 0.1)
    with FaultProxy("127.0.0.1", host.port) as proxy:
        async with bulk_connection() as spare:
            behind = msgspec.structs.replace(host, port=proxy.port)
            proxy.hole()
            assert await spare.get(behind) is None
            proxy.mend()
            while (connection := await spare.get(behind)) is None:
                pass
            assert not connection.closed


async def test_an_idle_bulk_connection_is_closed_and_one_in_use_is_not(
    host, socket_path, monkeypatch
):
    monkeypatch.setattr(bulk, "_IDLE_SECONDS", 0.1)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()

    server = await asyncio.start_unix_server(echo, socket_path)
    loop = asyncio.get_running_loop()
    async with bulk_connection() as spare, server:
        connection = await spare.get(host)
        reader, writer = await connection.open_unix(socket_path)
        end = loop.time() + 0.5
        while loop.time() < end:
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
        assert not connection.closed
        writer.close()
        await connection.wait_lost()
        assert await spare.get(host) not in (None, connection)

"""The one host of a machine without namespaces, seen through OpenSSH's client."""

import asyncio
import os
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from refusals import raises
from waiting import eventually

from jupyter_tpu.emulator.hosts import HostSpec, RunningHost, Runtime, machine
from jupyter_tpu.errors import Reason

pytestmark = pytest.mark.asyncio(loop_scope="module")

ADDRESS = "127.0.0.1"


def new_spec(state: Path, number: int = 0, **more) -> HostSpec:
    return HostSpec(
        **{
            "node_id": "1",
            "worker": 0,
            "hostname": "t1v-n-0123abcd-w-0",
            "address": ADDRESS,
            "environment": {"A": "a \"quoted\" 'word'", "JAX_PLATFORMS": "cpu"},
            "folder": state / "hosts" / str(number),
            **more,
        }
    )


class Client:
    def __init__(self, host: RunningHost, key: Path, user: str = "ada") -> None:
        self.host, self.key, self.user = host, key, user
        self.known = key.with_name(f"known-{host.port}")
        kind, value = next(iter(host.host_keys.items()))
        self.known.write_text(f"[{ADDRESS}]:{host.port},{ADDRESS} {kind} {value}\n")
        self.options = [
            *("-F", "none", "-i", str(key), "-o", f"UserKnownHostsFile={self.known}"),
            *("-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"),
            *("-o", "LogLevel=ERROR"),
        ]

    def command(self, *words: str) -> list[str]:
        return ["ssh", *self.options, "-p", str(self.host.port), f"{self.user}@{ADDRESS}", *words]

    async def run(self, *words: str, input: str = "") -> subprocess.CompletedProcess[str]:
        return await asyncio.to_thread(
            subprocess.run,
            self.command(*words),
            input=input,
            capture_output=True,
            text=True,
            timeout=60,
        )

    async def says(self, *words: str, input: str = "") -> str:
        done = await self.run(*words, input=input)
        assert done.returncode == 0, done
        return done.stdout.strip()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def runtime(tmp_path_factory) -> AsyncIterator[Runtime]:
    runtime = await Runtime.probe(tmp_path_factory.mktemp("fallback") / "state", "fallback")
    yield runtime
    await runtime.close()


@pytest.fixture(scope="module")
def key(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("key") / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


def public(key: Path) -> str:
    return key.with_suffix(".pub").read_text()


@pytest_asyncio.fixture(loop_scope="module")
async def client(runtime, key) -> AsyncIterator[Client]:
    spec = new_spec(runtime.folder)
    host = await runtime.start(spec)
    await host.set_users({"ada": [public(key)]})
    yield Client(host, key)
    await runtime.destroy(spec)
    assert not spec.folder.exists()


async def test_commands_have_a_home_variables_input_and_exit_codes(client, runtime):
    home = runtime.folder / "hosts/0/home/ada"
    assert await client.says("echo ~; pwd; echo $USER") == f"{home}\n{home}\nada"
    assert await client.says('echo "$A"') == "a \"quoted\" 'word'"
    assert await client.says("cat", input="x" * 300_000) == "x" * 300_000
    assert (await client.run("exit 7")).returncode == 7
    assert (await client.run("echo problem >&2; false")).stderr == "problem\n"
    assert (await client.run("kill -KILL $$")).returncode == 255  # ssh's word for a signal


async def test_an_interactive_shell_has_a_terminal(client):
    output = await client.says("-tt", "tty; stty size > /dev/null && echo sized")
    assert output.startswith("/dev/")
    assert output.endswith("sized")


async def test_a_terminal_whose_client_reads_slowly_loses_no_line_at_its_end(client):
    lines = 1_000_000
    command = client.command("-tt", f"seq {lines}")
    ssh = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    got = 0
    while data := await ssh.stdout.read(65536):
        got += data.count(b"\n")
        await asyncio.sleep(0.005)
    assert (await ssh.wait(), got) == (0, lines)


async def test_only_the_users_of_the_node_get_in(client, runtime, key):
    stranger = Client(client.host, key, "eve")
    assert "Permission denied" in (await stranger.run("true")).stderr
    assert "Permission denied" in (await Client(client.host, key, "../ada").run("true")).stderr
    await client.says("echo kept > ~/kept")
    await client.host.set_users({"eve": [public(key)]})
    assert await stranger.says("echo $USER") == "eve"
    assert "Permission denied" in (await client.run("true")).stderr


async def test_sftp_and_scp_stay_inside_the_host(client, tmp_path):
    (tmp_path / "sent").write_bytes(os.urandom(500_000))
    remote = f"{client.user}@{ADDRESS}"

    async def scp(source: object, target: object) -> int:
        command = ["scp", "-q", *client.options, "-P", str(client.host.port), source, target]
        done = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=60)
        return done.returncode

    assert await scp(tmp_path / "sent", f"{remote}:got") == 0
    home = await client.says("pwd")
    assert await scp(f"{remote}:{home}/got", tmp_path / "back") == 0
    assert (tmp_path / "back").read_bytes() == (tmp_path / "sent").read_bytes()
    await client.says("ln -s /etc/passwd away; ln -s / root")
    beside = Path(home).parent.parent / "home-of-others"  # not in the folder "home"
    beside.mkdir()
    (beside / "theirs").write_text("secret")
    for path in ("/etc/passwd", "../../host_key", "away", "root/etc/passwd", beside / "theirs"):
        assert await scp(f"{remote}:{path}", tmp_path / "stolen") != 0
        assert not (tmp_path / "stolen").exists()
    assert await scp(tmp_path / "sent", f"{remote}:{tmp_path}/planted") != 0
    assert not (tmp_path / "planted").exists()


async def test_unix_sockets_are_reached_through_ssh(client, tmp_path):
    served = tmp_path / "served.sock"

    async def hello(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello " + await reader.readline())
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(hello, served)
    local = tmp_path / "local.sock"
    process = await asyncio.create_subprocess_exec(
        *client.command("-L", f"{local}:{served}", "echo up; cat"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    try:
        assert await asyncio.wait_for(process.stdout.readline(), 60) == b"up\n"
        reader, writer = await asyncio.open_unix_connection(local)
        writer.write(b"there\n")
        assert await asyncio.wait_for(reader.read(), 60) == b"hello there\n"
        writer.close()
    finally:
        process.kill()
        await process.wait()
        server.close()


async def test_pythons_of_the_machine_run_on_the_host(client):
    for name in machine.pythons().commands:
        assert (await client.says(f"{name} --version")).startswith(
            name.replace("python", "Python ")
        )


@pytest.mark.skipif(sys.platform != "linux", reason="leftover daemons are found on Linux only")
async def test_a_stop_ends_daemons_and_a_start_finds_the_home_again(runtime, key):
    spec = new_spec(runtime.folder, 1)
    host = await runtime.start(spec)
    await host.set_users({"ada": [public(key)]})
    client = Client(host, key)
    await client.says("echo kept > ~/kept; echo gone > $TMPDIR/gone")
    # By its process: others of this machine may look alike.
    daemon = await client.says("setsid sleep 600 > /dev/null 2>&1 < /dev/null & echo $!")
    await host.cut_links()
    assert int(daemon) in [entry["pid"] for entry in await host.processes()]
    await asyncio.wait_for(host.stop(), 60)
    assert host.ended
    assert await host.processes() == []
    again = await runtime.start(spec)
    assert again.host_keys == host.host_keys
    assert await Client(again, key).says("cat ~/kept; ls -A $TMPDIR | wc -l") == "kept\n0"
    await runtime.destroy(spec)


async def test_a_second_host_and_a_special_host_are_refused_with_the_reason(client, runtime):
    with raises(Reason.NO_CAPACITY):
        await runtime.start(new_spec(runtime.folder, 2))
    assert runtime.max_hosts == 1
    assert any("several hosts" in sentence for sentence in runtime.skipped)


async def test_a_host_without_python_needs_namespaces(runtime):
    with raises(Reason.UNAVAILABLE):
        await runtime.start(new_spec(runtime.folder, 3, without_python=True))


@pytest.mark.skipif(sys.platform != "linux", reason="leftover daemons are found on Linux only")
async def test_when_the_emulator_is_killed_its_hosts_daemons_end(runtime, key):
    program = f"""
        import asyncio, sys
        from pathlib import Path
        from jupyter_tpu.emulator.hosts import HostSpec, Runtime

        async def main():
            runtime = Runtime(Path(sys.argv[1]), "fallback")
            spec = HostSpec(node_id="1", worker=0, hostname="t1v-n-0-w-0",
                address={ADDRESS!r}, environment={{}}, folder=Path(sys.argv[1]) / "hosts/killed")
            host = await runtime.start(spec)
            await host.set_users({{"ada": [sys.argv[2]]}})
            print(host.port, *next(iter(host.host_keys.items())), flush=True)
            await asyncio.sleep(600)

        asyncio.run(main())
    """
    emulator = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", textwrap.dedent(program), str(runtime.folder), public(key)),
        stdout=asyncio.subprocess.PIPE,
    )
    port, kind, value = (await asyncio.wait_for(emulator.stdout.readline(), 60)).decode().split()
    known = key.with_name("killed")
    known.write_text(f"[{ADDRESS}]:{port},{ADDRESS} {kind} {value}\n")
    done = await asyncio.to_thread(
        subprocess.run,
        [
            *("ssh", "-F", "none", "-i", str(key), "-o", f"UserKnownHostsFile={known}"),
            *("-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes", "-p", port, f"ada@{ADDRESS}"),
            "setsid sleep 600 > /dev/null 2>&1 < /dev/null & echo $!",
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    daemon = Path("/proc", done.stdout.strip())
    assert daemon.exists()
    emulator.kill()
    await emulator.wait()
    await eventually(lambda: not daemon.exists())

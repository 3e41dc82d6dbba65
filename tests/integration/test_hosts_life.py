"""Emulated hosts seen through the real OpenSSH client: what a person on a TPU VM would notice.

The hosts run in the best mode that this machine allows, or in that which the variable
JUPYTER_TPU_TEST_HOSTS names: test_hosts_modes.py runs this file so for an unprivileged user.
"""

import asyncio
import itertools
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from refusals import raises
from waiting import eventually

from jupyter_tpu.emulator.hosts import HostSpec, RunningHost, Runtime, machine
from jupyter_tpu.errors import Reason

pytestmark = pytest.mark.asyncio(loop_scope="module")

MODE = os.environ.get("JUPYTER_TPU_TEST_HOSTS")
AWKWARD = {"A": "a \"quoted\" \\ 'word' # $HOME `id` ü", "EMPTY": "", "LAST": "=x= "}
_places = itertools.count(os.getpid() % 200 * 250 + 1)


def free_address() -> str:
    """A loopback address that no other host of this test run has."""
    place = next(_places)
    return f"127.77.{place // 250 % 250 + 1}.{place % 250 + 1}"


def new_spec(state: Path, worker: int = 0, **more) -> HostSpec:
    return HostSpec(
        **{
            "node_id": "1234567890",
            "worker": worker,
            "hostname": f"t1v-n-0123abcd-w-{worker}",
            "address": free_address(),
            "environment": AWKWARD,
            "folder": state / "hosts" / str(worker),
            **more,
        }
    )


class Client:
    """OpenSSH's client with one key, one host and its pinned host key."""

    def __init__(self, spec: HostSpec, host: RunningHost, key: Path, user: str = "ada") -> None:
        self.spec, self.host, self.key, self.user = spec, host, key, user
        self.known = key.parent / f"known-{spec.address}-{host.port}"
        kind, value = next(iter(host.host_keys.items()))
        self.known.write_text(f"[{spec.address}]:{host.port},{spec.address} {kind} {value}\n")

    @property
    def options(self) -> list[str]:
        return [
            *("-F", "none", "-i", str(self.key), "-o", f"UserKnownHostsFile={self.known}"),
            *("-o", "StrictHostKeyChecking=yes", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"),
            *("-o", "ConnectTimeout=60", "-o", "LogLevel=ERROR"),
        ]

    def command(self, *command: str, options: tuple[str, ...] = ()) -> list[str]:
        to = ["-p", str(self.host.port), f"{self.user}@{self.spec.address}"]
        return ["ssh", *self.options, *options, *to, *command]

    def run(self, command: str, *, options: tuple[str, ...] = (), input: str = "", check=True):
        """Runs a shell command there; blocks. Returns the CompletedProcess."""
        done = subprocess.run(
            self.command(command, options=options),
            input=input,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert not check or done.returncode == 0, (command, done.returncode, done.stderr)
        return done

    async def says(self, command: str, **more) -> str:
        """What a command says on stdout, without blocking the hosts' own tasks."""
        return (await asyncio.to_thread(self.run, command, **more)).stdout.strip()

    async def fails(self, command: str) -> subprocess.CompletedProcess:
        done = await asyncio.to_thread(self.run, command, check=False)
        assert done.returncode != 0, done.stdout
        return done


class Pod:
    """Two running hosts with the user ada, and her clients."""

    def __init__(self, runtime: Runtime, keys: tuple[Path, Path]) -> None:
        self.runtime = runtime
        self.key, self.other_key = keys
        self.specs: list[HostSpec] = []
        self.hosts: list[RunningHost] = []
        self.clients: list[Client] = []

    def public(self, key: Path | None = None) -> str:
        return (key or self.key).with_suffix(".pub").read_text()

    async def add(self, spec: HostSpec) -> Client:
        host = await self.runtime.start(spec)
        await host.set_users({"ada": [self.public()]})
        client = Client(spec, host, self.key)
        self.specs.append(spec)
        self.hosts.append(host)
        self.clients.append(client)
        return client


def new_key(path: Path) -> Path:
    path.unlink(missing_ok=True)
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
    return path


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def runtime(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Runtime]:
    state = os.environ.get("JUPYTER_TPU_TEST_HOSTS_STATE")
    folder = Path(state) if state else tmp_path_factory.mktemp("hosts") / "state"
    runtime = await Runtime.probe(folder, MODE)
    if runtime.mode == "fallback":
        pytest.skip("emulated hosts: NO LINUX NAMESPACES HERE: " + " ".join(runtime.skipped))
    yield runtime
    await runtime.close()


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def pod(runtime: Runtime, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Pod]:
    folder = tmp_path_factory.mktemp("keys")
    pod = Pod(runtime, (new_key(folder / "key"), new_key(folder / "other")))
    first, second = new_spec(runtime.folder, 0), new_spec(runtime.folder, 1)
    peers = ((first.hostname, first.address), (second.hostname, second.address))
    for spec in (first, second):
        await pod.add(
            HostSpec(
                **{name: getattr(spec, name) for name in spec.__struct_fields__} | {"peers": peers}
            )
        )
    yield pod
    for spec in pod.specs:
        await runtime.destroy(spec)
        assert not spec.folder.exists()


@pytest_asyncio.fixture(loop_scope="module")
async def extra(pod: Pod) -> AsyncIterator[Pod]:
    """For hosts of one test: what it adds to this pod is destroyed after it."""
    more = Pod(pod.runtime, (pod.key, pod.other_key))
    yield more
    for spec in more.specs:
        await pod.runtime.destroy(spec)


async def test_each_host_has_its_own_name_user_home_and_tmp(pod):
    for number, client in enumerate(pod.clients):
        output = await client.says("hostname; id -un; echo ~; pwd; touch ~/mine /tmp/mine; id -u")
        hostname = f"t1v-n-0123abcd-w-{number}"
        assert output.splitlines()[:4] == [hostname, "ada", "/home/ada", "/home/ada"]
        assert output.splitlines()[4] != "0"
        await client.says(f"echo {number} > ~/number; echo {number} > /tmp/number")
    for number, client in enumerate(pod.clients):
        assert await client.says("cat ~/number /tmp/number") == f"{number}\n{number}"
    assert not Path("/tmp/mine").exists()


async def test_a_host_knows_the_others_of_its_pod_by_name(pod):
    other = pod.specs[1]
    output = await pod.clients[0].says(f"getent hosts {other.hostname}")
    assert output.split() == [other.address, other.hostname]


async def test_hosts_are_only_what_their_pinned_keys_say(pod):
    first, second = pod.clients
    assert first.host.host_keys["ssh-ed25519"] != second.host.host_keys["ssh-ed25519"]
    wrong = Client(first.spec, first.host, first.key)
    wrong.known = second.known.with_name("wrong")
    value = second.host.host_keys["ssh-ed25519"]
    wrong.known.write_text(
        f"[{first.spec.address}]:{first.host.port},{first.spec.address} ssh-ed25519 {value}\n"
    )
    done = await wrong.fails("true")
    assert "Host key verification failed" in done.stderr


@pytest.mark.parametrize("options", [(), ("-tt",)], ids=["plain", "terminal"])
async def test_every_session_gets_the_variables_unchanged(pod, options):
    show = 'python3 -c \'import os; print(ascii([os.environ[n] for n in ("A","EMPTY","LAST")]))\''
    for command in (show, f"bash -lc {shlex.quote(show)}"):
        output = await pod.clients[0].says(command, options=options)
        assert output == ascii(list(AWKWARD.values()))


async def test_a_terminal_is_one_of_the_hosts_own(pod):
    output = await pod.clients[0].says("tty; stty -a > /dev/null && echo works", options=("-tt",))
    assert re.fullmatch(r"/dev/pts/\d+\s+works", output)


async def test_only_harmless_devices_are_there(pod):
    devices = set((await pod.clients[0].says("ls /dev")).split())
    assert devices == {
        *("null", "zero", "full", "random", "urandom", "tty"),
        *("fd", "stdin", "stdout", "stderr", "ptmx", "pts", "shm"),
    }


async def test_sudo_makes_root_of_this_host_only(pod):
    first, second = pod.clients
    assert await first.says("sudo -n id -u") == "0"
    mark = f"/etc/jupyter-tpu-test-{os.getpid()}"
    await first.says(f"echo mine | sudo tee {mark} /usr/local/lib/mark; sudo -i true")
    assert await first.says(f"cat {mark}") == "mine"
    assert await second.says(f"test -e {mark} || echo none") == "none"
    assert not Path(mark).exists()
    assert not Path("/usr/local/lib/mark").exists()


async def test_sudo_passes_words_input_variables_and_exit_codes_on(pod):
    client = pod.clients[0]
    assert await client.says("sudo printf '%s|' 'two words' '$x' '*'") == "two words|$x|*|"
    assert await client.says("sudo cat", input="through") == "through"
    assert await client.says("sudo X=1 sh -c 'echo $X $SUDO_USER $HOME'") == "1 ada /root"
    assert (await client.fails("sudo sh -c 'exit 3'")).returncode == 3


async def test_another_user_can_be_had_by_sudo_and_only_by_those_who_may(pod):
    if pod.runtime.mode == "user":
        pytest.skip("all users of a host are one in this mode")
    client = pod.clients[0]
    assert await client.says("sudo -u nobody id -un") == "nobody"
    done = await client.fails("sudo -u nobody sudo -n id -u")
    assert done.stdout == ""


async def test_a_hosts_root_cannot_change_the_machine(pod):
    client = pod.clients[0]
    before = Path("/proc/sys/vm/swappiness").read_text()
    await client.fails("sudo sh -c 'echo 33 > /proc/sys/vm/swappiness'")
    assert Path("/proc/sys/vm/swappiness").read_text() == before
    await client.fails("sudo date -s 2001-01-01")
    await client.fails("sudo mknod /root/disk b 254 0 && sudo head -c1 /root/disk")
    await client.fails("sudo umount /usr")


async def test_the_users_own_files_are_not_there(pod):
    client = pod.clients[0]
    shown = set()
    for folder in machine.pythons().folders:
        shown |= {str(folder), *map(str, folder.parents)}
    for home in machine.real_homes():
        seen = (await client.says(f"sudo find {home} -mindepth 1 -maxdepth 1", check=False)).split()
        private = {path for path in seen if not path.startswith(("/root/.bash", "/root/.profile"))}
        assert private <= shown | {"/home/ada"}
    state = pod.runtime.folder
    assert await client.says(f"sudo test -e {state} || echo none") == "none"
    assert await client.says("sudo ls /etc/ssh | grep -c ssh_host") == "2"


async def test_pythons_of_the_machine_run_on_the_host(pod):
    client = pod.clients[0]
    commands = machine.pythons().commands
    if not commands:
        pytest.skip("this machine has no Python but the system's")
    minor = f"python3.{sys.version_info.minor}"
    if minor in commands:
        output = await client.says(f"{minor} -c 'import ctypes, ssl, sys; print(sys.executable)'")
        assert output == f"/usr/local/bin/{minor}"
    output = await client.says(f"bash -lc 'for n in {' '.join(commands)}; do $n --version; done'")
    for name, version in zip(commands, output.splitlines(), strict=True):
        assert version.startswith(name.replace("python", "Python "))


async def test_what_runs_is_listed_and_is_the_same_before_and_after(pod):
    client, host = pod.clients[0], pod.hosts[0]
    before = await settled(host)
    assert [entry["pid"] for entry in before if "listener" in " ".join(entry["cmdline"])] == [1]
    await client.says("sleep 1234567 > /dev/null 2>&1 & until pgrep -x sleep; do :; done")
    during = await host.processes()
    assert any("1234567" in entry["cmdline"] for entry in during)
    await client.says("pkill -f 1234567; true", check=False)
    known = {entry["pid"] for entry in before}

    async def nothing_more() -> bool:
        return {entry["pid"] for entry in await host.processes()} <= known

    await eventually(nothing_more)


async def settled(host: RunningHost) -> list[dict]:
    """The host's processes once no connection is being taken down any more."""

    async def without_closing() -> list[dict] | None:
        every = await host.processes()
        session = re.compile(r"sshd(-session)?: ")
        if any(session.match(line["cmdline"][0]) and line["pid"] != 1 for line in every):
            return None
        return every

    return await eventually(without_closing)


async def test_a_key_that_is_taken_away_lets_nobody_in_and_the_home_stays(pod):
    client, host = pod.clients[0], pod.hosts[0]
    await client.says("echo precious > ~/precious")
    other = Client(client.spec, host, pod.other_key)
    assert "Permission denied" in (await other.fails("true")).stderr
    await host.set_users({"ada": [pod.public(pod.other_key)]})
    assert "Permission denied" in (await client.fails("true")).stderr
    assert await other.says("cat ~/precious") == "precious"
    await host.set_users({})
    await other.fails("true")
    await host.set_users({"ada": [pod.public()]})
    assert await client.says("cat ~/precious") == "precious"


async def test_a_key_that_the_user_wrote_stays_when_the_nodes_keys_change(pod):
    client, host = pod.clients[1], pod.hosts[1]
    line = pod.public(pod.other_key).strip()
    await client.says(f"mkdir -p ~/.ssh; echo {shlex.quote(line)} >> ~/.ssh/authorized_keys")
    other = Client(client.spec, host, pod.other_key)
    assert await other.says("id -un") == "ada"
    await host.set_users({"ada": [pod.public()]})
    assert await other.says("rm ~/.ssh/authorized_keys; echo was here") == "was here"


async def test_several_users_have_homes_of_their_own(pod):
    host, spec = pod.hosts[1], pod.specs[1]
    await host.set_users({"ada": [pod.public()], "Bob.2": [pod.public(pod.other_key)]})
    bob = Client(spec, host, pod.other_key, "Bob.2")
    assert await bob.says("echo $USER; echo ~; echo ~Bob.2") == "Bob.2\n/home/Bob.2\n/home/Bob.2"
    assert "Permission denied" in (await Client(spec, host, pod.key, "Bob.2").fails("true")).stderr
    if pod.runtime.mode != "user":  # there all users are one
        await bob.fails("ls ~ada")


async def test_cutting_the_links_ends_sessions_but_not_what_runs(pod):
    client, host = pod.clients[1], pod.hosts[1]
    await client.says("setsid sleep 7654321 > /dev/null 2>&1 < /dev/null & echo")
    held = await asyncio.create_subprocess_exec(
        *client.command("echo up; sleep 600"), stdout=asyncio.subprocess.PIPE
    )
    assert await asyncio.wait_for(held.stdout.readline(), 60) == b"up\n"
    await host.cut_links()
    assert await asyncio.wait_for(held.wait(), 60) == 255
    # The shell answered before what it put in the background ran.
    count = "pgrep -f '^sleep 765432[1]' | wc -l"

    async def goes_on() -> bool:
        return await client.says(count) == "1"

    await eventually(goes_on)
    await client.says("pkill -f 'sleep 765432[1]'; pkill -f 'sleep 60[0]'; true")


def machine_processes() -> dict[int, str]:
    """The command lines of what runs on this machine; the dead who wait for a parent have none."""
    lines = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                lines[int(entry)] = Path(f"/proc/{entry}/cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
    return {pid: line for pid, line in lines.items() if line}


def runs(command: str) -> bool:
    return any(command in line for line in machine_processes().values())


async def background(client: Client, number: str) -> str:
    """Starts a daemon on a host; returns the command line that is this test's alone."""
    sleep = f"sleep {number}{os.getpid()}"
    await client.says(f"nohup setsid sh -c '{sleep}' > /dev/null 2>&1 < /dev/null & echo")
    # The shell answers before what it put in the background runs.
    await eventually(lambda: runs(sleep))
    return sleep


async def test_a_stop_ends_daemons_clears_tmp_and_keeps_home_names_and_key(extra):
    spec = new_spec(extra.runtime.folder, 2)
    client = await extra.add(spec)
    host = extra.hosts[0]
    await client.says("echo kept > ~/kept; echo gone > /tmp/gone; echo kept | sudo tee /etc/kept")
    sleep = await background(client, "424242")
    await asyncio.wait_for(host.stop(), 60)
    await asyncio.wait_for(host.wait_ended(), 60)
    assert host.ended
    assert not runs(sleep)
    assert await host.processes() == []
    again = await extra.runtime.start(spec)
    assert again.host_keys == host.host_keys
    await again.set_users({"ada": [extra.public()]})
    client = Client(spec, again, extra.key)
    output = await client.says(
        "hostname; cat ~/kept /etc/kept; ls -A /tmp | wc -l; pgrep sleep | wc -l"
    )
    assert output.split() == ["t1v-n-0123abcd-w-2", "kept", "kept", "0", "0"]


async def test_the_end_of_sshd_is_the_end_of_the_host(extra):
    client = await extra.add(new_spec(extra.runtime.folder, 3))
    sleep = await background(client, "515151")
    os.kill(extra.hosts[0].init_pid, signal.SIGKILL)
    await asyncio.wait_for(extra.hosts[0].wait_ended(), 60)
    assert extra.hosts[0].ended
    await eventually(lambda: not runs(sleep))


async def test_when_the_emulator_is_killed_nothing_of_its_hosts_is_left(pod, tmp_path):
    address = free_address()
    program = f"""
        import asyncio, os, sys
        from pathlib import Path
        from jupyter_tpu.emulator.hosts import HostSpec, Runtime

        async def main():
            runtime = Runtime(Path(sys.argv[1]), sys.argv[2])
            spec = HostSpec(node_id="1", worker=0, hostname="t1v-n-0-w-0",
                address={address!r}, environment={{}}, folder=Path(sys.argv[3]))
            host = await runtime.start(spec)
            await host.set_users({{"ada": [sys.argv[4]]}})
            print(host.port, *next(iter(host.host_keys.items())), host.init_pid, flush=True)
            await asyncio.sleep(600)

        asyncio.run(main())
    """
    folder = pod.runtime.folder / "hosts" / "orphan"
    emulator = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", textwrap.dedent(program)),
        *(str(pod.runtime.folder), pod.runtime.mode, str(folder), pod.public()),
        stdout=asyncio.subprocess.PIPE,
    )
    line = (await asyncio.wait_for(emulator.stdout.readline(), 60)).decode().split()
    init = int(line[3])
    spec = new_spec(folder, 9, address=address, folder=folder)
    host = pod.hosts[0].__class__(spec, int(line[0]), {line[1]: line[2]}, pod.runtime.mode)
    client = Client(spec, host, pod.key)
    try:
        sleep = await background(client, "616161")
    finally:
        emulator.kill()
        await emulator.wait()
    await eventually(lambda: init not in machine_processes())
    await eventually(lambda: not runs(sleep))
    await pod.runtime.destroy(spec)


async def test_files_that_variables_name_are_there_and_can_be_read(extra, tmp_path):
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / "one.whl").write_text("a wheel")
    certificate = tmp_path / "certificate.pem"
    certificate.write_text("a certificate")
    certificate.chmod(0o600)
    named = {"PIP_FIND_LINKS": wheels.as_uri(), "SSL_CERT_FILE": str(certificate)}
    client = await extra.add(new_spec(extra.runtime.folder, 4, environment=named))
    assert await client.says("cat $SSL_CERT_FILE; cat ${PIP_FIND_LINKS#file://}/one.whl")
    await client.fails("echo changed > $SSL_CERT_FILE")
    await client.fails("touch ${PIP_FIND_LINKS#file://}/two.whl")
    assert certificate.read_text() == "a certificate"


async def test_a_host_without_python_tools_has_a_bare_python_and_no_other(extra):
    client = await extra.add(new_spec(extra.runtime.folder, 5, without_python_tools=True))
    if shutil.which("python3", path="/usr/local/bin:/usr/bin") is None:
        pytest.skip("emulated hosts: this machine has no system Python to take tools from")
    modules = ("venv", "ensurepip", "pip")
    output = await client.says(
        "python3 -c 'print(1 + 1)'; "
        f"for m in {' '.join(modules)}; do python3 -m $m --help 2>&1; done; true"
    )
    assert output.startswith("2\n")
    for module in modules:
        assert f"No module named {module}\n" in output + "\n"
    others = [*machine.pythons().commands, "uv", "pip", "pip3", "virtualenv"]
    programs = (
        await client.says(f"for n in {' '.join(others)}; do command -v $n; done; true")
    ).split()
    system = re.compile(r"/usr/(local/)?bin/python3\.\d+")
    assert [path for path in programs if not system.fullmatch(path) or len(programs) > 1] == []


async def test_a_host_without_python_has_none(extra):
    client = await extra.add(new_spec(extra.runtime.folder, 6, without_python=True))
    output = await client.says(
        "for n in python python3 python3.11 python3.12 uv; do command -v $n; done; true"
    )
    assert output == ""


async def test_a_small_disk_can_be_full(extra):
    client = await extra.add(new_spec(extra.runtime.folder, 7, disk_limit_mb=8))
    done = await client.fails("head -c 20M /dev/zero > ~/big")
    assert "No space left on device" in done.stderr
    assert await client.says("rm ~/big; echo fits > ~/small; cat ~/small; echo $UV_LINK_MODE") == (
        "fits\ncopy"
    )


async def test_a_host_that_runs_is_not_started_twice(pod):
    with raises(Reason.CONFLICT):
        await pod.runtime.start(pod.specs[0])


async def test_a_host_with_an_address_of_another_machine_is_an_error(pod):
    with raises(Reason.UNAVAILABLE) as problem:
        await pod.runtime.start(new_spec(pod.runtime.folder, 8, address="192.0.2.1"))
    assert "192.0.2.1" in problem.value.message


def tiny_wheel(folder: Path) -> Path:
    """A wheel that pip and uv install, made by hand."""
    folder.mkdir(mode=0o755, exist_ok=True)
    path = folder / "tiny_tpu_test-1.0-py3-none-any.whl"
    about = "tiny_tpu_test-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("tiny_tpu_test.py", "answer = 42\n")
        wheel.writestr(
            f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny-tpu-test\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(
            f"{about}/RECORD",
            f"tiny_tpu_test.py,,\n{about}/METADATA,,\n{about}/WHEEL,,\n{about}/RECORD,,\n",
        )
    return path


def uv_program() -> Path | None:
    beside = Path(sys.executable).with_name("uv")
    program = str(beside) if beside.exists() else shutil.which("uv")
    return Path(program) if program else None


@pytest.mark.long
async def test_all_users_of_all_hosts_take_packages_from_one_uv_cache(extra, tmp_path):
    uv = uv_program()
    if uv is None:
        pytest.skip("uv is not installed")
    wheels = tiny_wheel(tmp_path / "wheels").parent
    named = {"UV_FIND_LINKS": str(wheels)}
    for worker in (10, 11):
        await extra.add(new_spec(extra.runtime.folder, worker, environment=named))
    await extra.hosts[1].set_users({"ada": [extra.public()], "bob": [extra.public()]})
    everyone = [*extra.clients, Client(extra.specs[1], extra.hosts[1], extra.key, "bob")]
    links = []
    for client in everyone:
        await asyncio.to_thread(
            subprocess.run,
            [
                *("scp", "-q", *client.options, "-P", str(client.host.port)),
                *(str(uv), f"{client.user}@{client.spec.address}:uv"),
            ],
            check=True,
            timeout=60,
        )
        install = (
            "./uv pip install -q --no-index --python python3 --target ~/packages tiny-tpu-test"
        )
        try_it = "PYTHONPATH=~/packages python3 -c 'import tiny_tpu_test as t; print(t.answer)'"
        assert await client.says(f"{install} && {try_it}") == "42"
        links.append(await client.says("readlink -f ~/packages/tiny_tpu_test.py"))
    assert len(set(links)) == 1
    assert links[0].startswith("/var/cache/uv/")


def memory_kib(pid: int) -> int:
    """What a process has of memory for itself."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return int(re.search(r"^Pss_Anon: +(\d+) kB", text, re.MULTILINE)[1])


@pytest.mark.long
async def test_sixty_four_hosts_start_together_and_are_small(extra):
    loop = asyncio.get_running_loop()
    specs = [new_spec(extra.runtime.folder, 100 + number) for number in range(64)]
    extra.specs.extend(specs)
    began = loop.time()
    hosts = await asyncio.gather(*(extra.runtime.start(spec) for spec in specs))
    took = loop.time() - began
    memory = sum(await asyncio.to_thread(lambda: [memory_kib(host.init_pid) for host in hosts]))
    print(f"64 hosts in {took:.1f} s, {memory / 64:.0f} kB of memory each")
    assert memory / 64 < 4000


@pytest.mark.long
async def test_apt_installs_on_one_host_and_not_on_the_machine(extra):
    if shutil.which("apt-get") is None or shutil.which("hello"):
        pytest.skip("emulated hosts: needs a Debian without the package hello")
    first = await extra.add(new_spec(extra.runtime.folder, 13))
    second = await extra.add(new_spec(extra.runtime.folder, 14))
    install = (
        "sudo apt-get update -qq; sudo DEBIAN_FRONTEND=noninteractive apt-get install -qqy hello"
    )
    await asyncio.to_thread(
        subprocess.run, first.command(install), capture_output=True, check=True, timeout=150
    )
    assert await first.says("hello -g 'good morning'") == "good morning"
    assert await second.says("command -v hello || echo none") == "none"
    assert shutil.which("hello") is None

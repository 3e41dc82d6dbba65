"""The real ssh, scp, rsync, git and mosh with emulated TPUs, found by name through our entries."""

import fcntl
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from cli_shell import Shell, Terminal
from own_sshd import path_with_ssh
from waiting import until

from jupyter_tpu.commands import persistent_shell
from jupyter_tpu.python_command import module_command
from jupyter_tpu.ssh import KnownHosts, ensure_key, public_key

COMMAND = module_command("jupyter_tpu.cli")
LIMIT = 120.0  # seconds for anything
ZONE = "us-central1-a"

pytestmark = pytest.mark.skipif(
    shutil.which("ssh") is None, reason="SKIPPED FOR WANT OF ssh: install openssh-client"
)


def needs(program: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(
        shutil.which(program) is None, reason=f"SKIPPED FOR WANT OF {program}: install it"
    )


class Person:
    """Somebody with a home of their own at a shell."""

    def __init__(self, folder: Path, emulator: Any) -> None:
        self.home = folder / "a home"  # with a blank, as people have them
        self.home.mkdir()
        self.config = self.home / ".ssh" / "config"
        # A project's own files, in the folder in which all commands run.
        for name in ("select.py", "queue.py", "random.py"):
            (self.home / name).write_text("raise RuntimeError('of the project')")
        self.environment = {**os.environ, **emulator.environment, "HOME": str(self.home)}
        # The agent and settings of whoever runs the tests are none of theirs.
        for name in ("SSH_AUTH_SOCK", "GIT_SSH_COMMAND", "RSYNC_RSH"):
            self.environment.pop(name, None)
        for name in ("JUPYTER_TPU_DATA_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
            self.environment[name] = str(self.home / name.lower())
        # OpenSSH takes the home of the password file, whatever HOME says.
        self.environment["GIT_SSH_COMMAND"] = f"ssh -F '{self.config}'"
        self.environment |= {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}

    def run(self, *words: str, **options: Any) -> subprocess.CompletedProcess[str]:
        options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run(
            words,
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            timeout=LIMIT,
            **options,
        )

    def out(self, *words: str, **options: Any) -> str:
        done = self.run(*words, **options)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def tpu(self, *words: str) -> str:
        return self.out(*COMMAND, *words)

    def ssh(self, *words: str) -> str:
        return self.out("ssh", "-F", str(self.config), *words)


@pytest.fixture
def person(tmp_path: Path, emulator: Any) -> Person:
    return Person(tmp_path, emulator)


@pytest.fixture(scope="module")
def pod(emulator: Any) -> Iterator[str]:
    """A pod of four hosts for the tests that leave it as it was."""
    with emulator.tpu("pod", "v5litepod-16", ZONE) as node:
        yield node["name"].rpartition("/")[2]


def use_everything(person: Person, name: str, round: str) -> None:
    """ssh, scp, rsync and git with a TPU."""
    assert person.ssh(name, f"echo {round}; hostname").split()[1].endswith("-w-0")
    data = os.urandom(300_000)
    (person.home / "data").write_bytes(data)
    person.out("scp", "-q", "-F", str(person.config), "data", f"{name}:copied")
    assert person.ssh(name, "sha256sum < copied") == person.out("sh", "-c", "sha256sum < data")
    if shutil.which("rsync"):
        folder = person.home / f"tree-{round}"
        (folder / "a b").mkdir(parents=True)
        (folder / "a b" / "file").write_text(round)
        shell = f"ssh -F '{person.config}'"
        person.out("rsync", "-a", "-e", shell, f"{folder.name}/", f"{name}:tree/")
        person.out("rsync", "-a", "-e", shell, f"{name}:tree/", f"back-{round}/")
        assert (person.home / f"back-{round}" / "a b" / "file").read_text() == round
    if shutil.which("git"):
        person.ssh(name, f"git init -q --bare {round}.git")
        person.out("git", "init", "-q", f"repo-{round}")
        git = ("git", "-C", f"repo-{round}", "-c", "user.name=x", "-c", "user.email=x@x")
        person.out(*git, "commit", "-q", "--allow-empty", "-m", round)
        person.out(*git, "push", "-q", f"{name}:{round}.git", "HEAD:refs/heads/main")
        person.out("git", "clone", "-q", "-b", "main", f"{name}:{round}.git", f"clone-{round}")
        assert person.out("git", "-C", f"clone-{round}", "log", "--format=%s").strip() == round


@needs("rsync")
@needs("git")
def test_ssh_scp_rsync_and_git_find_a_tpu_before_and_after_its_address_changed(
    person, create_tpu, emulator
):
    tpu = create_tpu()
    name = tpu["name"].rpartition("/")[2]
    person.config.parent.mkdir(mode=0o700)
    own = "Host *\n  RemoteCommand tmux new -A -s main\n  RequestTTY force\n"
    person.config.write_text(own)
    said = person.tpu("ssh-config", "--write")
    assert f"{person.config}: added one line" in said
    assert "Try: ssh " in said
    text = person.config.read_text()
    assert text.partition("\n")[2] == own
    use_everything(person, name, "before")
    entries = (person.home / "jupyter_tpu_data_dir" / "ssh" / "config").read_bytes()

    emulator.request("POST", "/emulator/v1/faults", {"kind": "maintenance", "node": tpu["name"]})

    def is_elsewhere() -> bool:
        now = emulator.request("GET", f"/v2/{tpu['name']}")
        return now["state"] == "READY" and now["networkEndpoints"] != tpu["networkEndpoints"]

    until(is_elsewhere)
    use_everything(person, name, "after")
    assert (person.home / "jupyter_tpu_data_dir" / "ssh" / "config").read_bytes() == entries
    assert "includes" in person.tpu("ssh-config", "--write")
    assert person.config.read_text() == text


def test_settings_for_all_hosts_that_start_something_else_do_not_reach_a_tpu(person, pod, tmp_path):
    config = tmp_path / "config"
    config.write_text("Host *\n  RemoteCommand tmux new -A -s main\n  RequestTTY force\n")
    person.environment["PATH"] = path_with_ssh(tmp_path / "bin", config)
    assert person.tpu("ssh", pod, "--command", "echo one; [ -t 1 ] || echo no terminal") == (
        "one\nno terminal\n"
    )


@pytest.fixture
def sharing(tmp_path: Path) -> Iterator[str]:
    """Settings of people whose `ssh` shares connections, as many do."""
    sockets = Path(tempfile.mkdtemp(prefix="cm-"))  # a short path
    yield f"Host *\n  ControlMaster auto\n  ControlPath {sockets}/%C-%h\n  ControlPersist 600\n"
    for socket in sockets.iterdir():
        subprocess.run(["ssh", "-S", socket, "-O", "exit", "any"], capture_output=True)
    shutil.rmtree(sockets)


def test_a_shared_connection_of_one_tpu_is_not_used_for_another_one_of_its_name(
    person, create_tpu, emulator, sharing, tmp_path
):
    name, zones = "shared-name", (ZONE, "us-west4-a")
    nodes = [create_tpu(name, "v5litepod-1", zone) for zone in zones]
    config = tmp_path / "config"
    config.write_text(sharing)
    person.environment["PATH"] = path_with_ssh(tmp_path / "bin", config)
    person.config.parent.mkdir()
    person.config.write_text(sharing)
    person.tpu("ssh-config", "--write")

    def hosts() -> list[str]:
        """What `jupyter tpu ssh` reaches in both zones, and then the person's own `ssh`."""
        refs = [f"{zone}~{name}" for zone in zones]
        reached = [person.tpu("ssh", ref, "--command", "hostname") for ref in refs]
        return reached + [person.ssh(ref, "hostname") for ref in refs]

    first = hosts()
    assert first[0] != first[1]
    assert first[:2] == first[2:]
    emulator.wait(emulator.request("DELETE", f"/v2/{nodes[0]['name']}"))
    # Only one has the name now, by which the other one was called as well.
    assert person.tpu("ssh", name, "--command", "hostname") == first[1]
    person.tpu("ssh-config", "--write")
    assert person.ssh(name, "hostname") == first[1]
    create_tpu(name, "v5litepod-1", ZONE)
    person.tpu("ssh-config", "--write")
    again = hosts()
    assert again[:2] == again[2:]
    assert again[0] not in first
    assert again[1] == first[1]


def test_a_tpu_that_was_created_again_is_reached_and_one_with_an_unpinned_key_is_not(
    person, create_tpu, emulator, monkeypatch
):
    tpu = create_tpu()
    name = tpu["name"].rpartition("/")[2]
    person.tpu("ssh-config", "--write")
    first = person.ssh(name, "hostname")
    emulator.wait(emulator.request("DELETE", f"/v2/{tpu['name']}"))
    done = person.run("ssh", "-F", str(person.config), name, "true")
    assert done.returncode == 255
    assert f"The TPU {name} does not exist in {ZONE}." in done.stderr
    again = create_tpu(name=name)
    assert person.ssh(name, "hostname") != first

    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", person.environment["JUPYTER_TPU_DATA_DIR"])
    other = public_key(ensure_key(person.home / "other"))
    KnownHosts().pin({f"tpu.{again['id']}-0": [other]}, {})
    done = person.run("ssh", "-F", str(person.config), name, "true")
    assert done.returncode == 255
    assert "HOST IDENTIFICATION HAS CHANGED" in done.stderr


def test_entries_come_and_go_with_tpus_and_can_be_taken_out_again(person, pod, emulator):
    person.config.mkdir(mode=0o700, parents=True)
    for option in ("--write", "--remove"):
        done = person.run(*COMMAND, "ssh-config", option)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert f"{person.config} is a folder" in done.stderr
    person.config.rmdir()
    own = b"# mine\nHost *\n  ServerAliveInterval 9\nHost " + pod.encode() + b"\n  User other\n"
    person.config.write_bytes(own)
    done = person.run(*COMMAND, "ssh-config", "--write")
    assert f"These entries override your own for {pod}." in done.stderr
    assert person.config.read_bytes().endswith(b"\n" + own)
    settings = dict(
        line.split(" ", 1) for line in person.ssh("-G", f"{pod}-3").splitlines() if " " in line
    )
    assert settings["user"] != "other"
    assert settings["hostkeyalias"].startswith(f"{pod}-3.{ZONE}.")
    assert settings["stricthostkeychecking"] == "true"
    assert person.ssh("-G", f"{pod}-4").count("hostkeyalias") == 0
    printed = person.tpu("ssh-config")
    assert f"Host {pod} {pod}-0 {ZONE}~{pod} {ZONE}~{pod}-0\n" in printed
    assert f"Host {pod}-3 {ZONE}~{pod}-3\n" in printed
    assert "no longer includes" in person.tpu("ssh-config", "--remove")
    assert person.config.read_bytes() == own


@pytest.mark.long
def test_each_host_of_a_pod_has_a_name_and_the_command_takes_options(person, pod):
    person.tpu("ssh-config", "--write")
    for worker in range(4):
        host = pod if worker == 0 else f"{pod}-{worker}"
        assert person.ssh(host, "echo $TPU_WORKER_ID") == f"{worker}\n"
    ssh = (*COMMAND, "ssh", pod)
    assert person.out(*ssh, "--worker", "2", "--", "printenv", "TPU_WORKER_ID") == "2\n"
    assert person.out(*ssh, "--", "-v", "-o", "LogLevel=QUIET", "--", "echo", "a  b") == "a b\n"
    assert person.run(*ssh, "--", "exit 7").returncode == 7
    done = person.run(*ssh, "--worker", "4")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert f"{pod} has no host 4. It has the hosts 0 to 3." in done.stderr


def test_hosts_of_a_pod_reach_each_other_with_keys_that_stay_where_they_are(person, pod, emulator):
    assert "ssh host-0" in person.tpu("ssh-config", "--between-hosts", pod)
    person.tpu("ssh-config", "--between-hosts", pod)  # twice is the same
    person.tpu("ssh-config", "--write")
    assert person.ssh(pod, "grep -c jupyter-tpu-pod .ssh/authorized_keys") == "4\n"
    for worker in (0, 3):
        script = "for n in 0 1 2 3; do ssh -n -o BatchMode=yes host-$n hostname; done"
        host = pod if worker == 0 else f"{pod}-{worker}"
        names = person.ssh(host, script).split()
        assert [host_name[-3:] for host_name in names] == ["w-0", "w-1", "w-2", "w-3"]
    keys = {person.ssh(f"{pod}-{n}", "cat .ssh/jupyter_tpu_pod.pub") for n in range(4)}
    assert len(keys) == 4
    mine = (person.home / "jupyter_tpu_data_dir" / "ssh" / "id_ed25519").read_text().split("\n")[2]
    assert person.run("ssh", "-F", str(person.config), pod, f"grep -r {mine} .ssh").returncode == 1
    # From elsewhere the keys of the pod open nothing.
    stolen = person.home / "stolen"
    stolen.write_text(person.ssh(pod, "cat .ssh/jupyter_tpu_pod"))
    stolen.chmod(0o600)
    ours = person.home / "jupyter_tpu_data_dir" / "ssh"
    entries = (
        (ours / "config")
        .read_text()
        .replace(f'IdentityFile "{ours / "id_ed25519"}"', f'IdentityFile "{stolen}"')
    )
    (person.home / "with-stolen").write_text(entries)
    done = person.run("ssh", "-F", str(person.home / "with-stolen"), f"{pod}-1", "true")
    assert done.returncode == 255
    assert "Permission denied" in done.stderr


@pytest.mark.long
def test_vs_code_gets_the_ssh_entry_and_the_folder_to_open(person, pod):
    done = person.run(*COMMAND, "vscode", "--remote", pod, "--worker", "1")
    assert done.returncode == 1
    assert "jupyter tpu ssh-config --write" in done.stderr
    person.tpu("ssh-config", "--write")
    command, link = person.tpu("vscode", "--remote", pod, "--worker", "1", "/data/x y").splitlines()
    assert command == f"code --remote ssh-remote+{pod}-1 '/data/x y'"
    assert link == f"vscode://vscode-remote/ssh-remote+{pod}-1/data/x%20y"
    # What VS Code does first: a shell over the entry, with its script on standard input.
    assert person.out("ssh", "-T", "-F", str(person.config), f"{pod}-1", "bash", stdin=None,
                      input="uname; hostname").splitlines()[0] == "Linux"  # fmt: skip


@pytest.mark.long
def test_gclouds_way_of_running_a_command_works_on_one_host_and_on_all(person, pod):
    where = (*COMMAND, "ssh", pod, "--zone", ZONE)
    assert person.out(*where, "--command", "echo $((6 * 7)) $TPU_WORKER_ID") == "42 0\n"
    cache = person.out(*where, "--command", "echo $JAX_COMPILATION_CACHE_DIR")
    assert cache.endswith("/.cache/jupyter-tpu/jax\n")
    assert person.out(*where, "--worker=3", "--command=echo $TPU_WORKER_ID") == "3\n"
    lines = person.out(*where, "--worker", "all", "--command", "echo $TPU_WORKER_ID; hostname")
    there = sorted(line.split(": ") for line in lines.splitlines())
    assert [host for host, _ in there] == ["0", "0", "1", "1", "2", "2", "3", "3"]
    for host, said in there:
        assert said == host or said.endswith(f"-w-{host}")
    done = person.run(*where, "--worker", "all", "--command", "exit $TPU_WORKER_ID")
    assert done.returncode == 1
    assert done.stderr == (
        f"jupyter tpu: The command failed on hosts of {pod}: 1 (exit code 1), 2 (exit code 2), "
        "3 (exit code 3).\n"
    )
    assert "needs --command" in person.run(*where, "--worker", "all").stderr


def test_gclouds_ssh_flags_are_given_to_ssh(person, pod):
    flag = "-v -oSetEnv=X_%USER%=at-%INSTANCE%"
    given = person.run(*COMMAND, "ssh", pod, "--ssh-flag", flag, "--ssh-flag=-G", "--", "true")
    options = given.stdout.splitlines()
    [user] = [option.split()[1] for option in options if option.startswith("user ")]
    assert any(
        re.fullmatch(rf"setenv X_{user}=at-[\d.]+", option, re.IGNORECASE) for option in options
    ), options
    assert "debug1" in given.stderr


@needs("mosh")
def test_mosh_reaches_a_tpu_where_it_is_installed(person, pod):
    here, there = pty.openpty()
    fcntl.ioctl(there, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, "ssh", pod, "--mosh", "--", "sh", "-c", "hostname; sleep 1"],
        env={**person.environment, "TERM": "xterm", "LC_ALL": "C.UTF-8"},
        cwd=person.home,
        stdin=there,
        stdout=there,
        stderr=there,
        start_new_session=True,
    )
    os.close(there)
    seen = b""
    end = time.monotonic() + LIMIT
    try:
        while b"-w-0" not in seen:
            assert time.monotonic() < end, seen
            if select.select([here], [], [], 1.0)[0]:
                seen += os.read(here, 65536)
        process.wait(LIMIT)
    except OSError:
        raise AssertionError(seen) from None
    finally:
        process.kill()
        process.wait()
        os.close(here)


@needs("tmux")
def test_a_kept_shell_goes_on_while_its_connection_is_lost(tmp_path, emulator, pod, sharing):
    config = tmp_path / "config"
    config.write_text(sharing)
    shell = Shell(tmp_path, **emulator.environment, PATH=path_with_ssh(tmp_path / "bin", config))
    # A connection that others share is there, and the host does not know this terminal.
    known = "infocmp xterm-no-such >/dev/null 2>&1 || echo lacks it"
    assert shell.out("ssh", pod, "--command", known) == "lacks it\n"
    shell.environment["TERM"] = "xterm-no-such"
    terminal = Terminal(shell, "ssh", pod, "--keep")
    terminal.type("echo first-$((40+2)); sleep 1000 & echo pid-$!.\r")
    terminal.expect(r"first-42")
    terminal.expect(r"pid-\d+\.")
    [ssh] = psutil.Process(terminal.process.pid).children()
    for proxy in ssh.children():  # its ProxyCommand, which is the connection
        proxy.kill()
    terminal.expect("The connection was lost. Connecting again")
    # What was on the screen is there again, and so is what runs.
    terminal.expect("first-42")
    terminal.type("kill -0 $! && echo alive-$((1+1))\r")
    terminal.expect("alive-2")
    terminal.type("exit\r")
    assert terminal.end() == 0


@needs("tmux")
def test_a_kept_shell_ends_when_its_tpu_is_deleted(tmp_path, emulator):
    with emulator.tpu("kept", "v5litepod-1", ZONE) as node:
        name = node["name"].rpartition("/")[2]
        terminal = Terminal(Shell(tmp_path, **emulator.environment), "ssh", name, "--keep")
        terminal.type("echo here-$((40+2))\r")
        terminal.expect("here-42")
    terminal.expect("The connection was lost. Connecting again")
    terminal.expect(rf"jupyter tpu:.* {name}.* does not exist")
    assert terminal.end() == 1


@needs("tmux")
def test_a_terminal_of_jupyterlab_takes_the_shell_that_none_shows(tmp_path, emulator, pod):
    shell = Shell(tmp_path, **emulator.environment)

    def opened(session: str) -> Terminal:
        words = ("ssh", pod, "--worker", "1", "--keep", "--in-jupyterlab")
        return Terminal(shell, *words, "--session", session)

    first = opened("jupyter-1")
    first.type("mine=$((6*7)); echo set-$mine\r")
    first.expect("set-42")
    first.process.send_signal(signal.SIGHUP)  # its tab is closed
    first.end()
    second = opened("jupyter-2")
    second.expect("set-42")
    third = opened("jupyter-3")
    third.type("echo none-$mine-here\r")
    third.expect("none--here")
    for terminal, said in ((second, "still-42"), (third, "still-")):
        terminal.type("echo still-$mine\r")
        terminal.expect(f"{said}\r?\n")
        terminal.type("exit\r")
        assert terminal.end() == 0


def test_without_tmux_a_message_says_how_to_keep_a_shell(tmp_path, emulator, pod):
    shell = Shell(tmp_path, **emulator.environment)
    complaint = shell.complaint("ssh", pod, "--keep", "--session", "a b")
    assert "is not the name of a session" in complaint
    assert "without a command" in shell.complaint("ssh", pod, "--keep", "--", "ls")
    # A host that has none: its shells find no program.
    script = persistent_shell._script("main").replace(
        " tmux >/dev/null", " no_such_program >/dev/null"
    )
    done = subprocess.run(["sh", "-c", script], stdin=subprocess.DEVNULL, capture_output=True)
    assert b"tmux is not installed on this host" in done.stdout
    assert b"apt-get install tmux" in done.stdout

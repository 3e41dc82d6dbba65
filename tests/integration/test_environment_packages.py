"""Packages of a connected TPU: installed in cells, by the CLI and REST; the same on all hosts."""

import functools
import json
import os
import re
import signal
import subprocess
import threading
import time
import urllib.error
import zipfile
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from adoption_server import FOLDERS, LIMIT, Server
from running_kernel import running_kernel
from waiting import until

from jupyter_tpu.cloud import CloudTPU, NodeName, Target
from jupyter_tpu.environment import ExpectedHardware, pod
from jupyter_tpu.errors import TPUError
from jupyter_tpu.links import HostName, Links, core_thread

NAME = "packages"
HOME = "tpus/packages/environments/default"


@pytest.fixture(scope="module")
def server(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose user has a connected TPU of two hosts."""
    server = Server(tmp_path_factory.mktemp("packages"), emulator.environment)
    with server.tpu_of_two_hosts(NAME) as connected:
        assert "jax.distributed works: 2 hosts, 8 devices" in connected["log"]
        yield server


@pytest.fixture(scope="module")
def run(server: Server) -> Iterator[Callable[[str], str]]:
    """``run(code)``: what a cell prints on the TPU's kernel."""
    with running_kernel(server.environment, environment(server)["kernelspec"]) as run:
        yield run


def environment(server: Server, name: str = "default") -> Any:
    environments = server.tpu("GET", f"tpus/{NAME}/environments")
    return next(environment for environment in environments if environment["name"] == name)


def wait_until_recorded(server: Server, packages: list[str]) -> None:
    until(lambda: environment(server)["packages"] == packages, why=lambda: environment(server))


def on_host(server: Server, host: int, code: str, name: str = "default") -> str:
    """What the environment's Python prints on one host."""
    python = environment(server, name)["path"] + "/bin/python"
    return server.on_host(NAME, host, python, "-c", code, check=False)


@pytest.mark.long
def test_a_kernel_says_once_that_jax_is_on_the_cpu_and_that_a_fork_can_hang(run):
    """First in this file: the kernel has not used JAX yet."""
    fork = "import os\npid = os.fork()\nif not pid: os._exit(0)\nos.waitpid(pid, 0)"
    assert "JAX" not in run(fork), "it has not started"
    # Not as on an emulated host, but as on one whose JAX does not find the chips.
    run("hidden = {n: os.environ.pop(n) for n in ('JUPYTER_TPU_EMULATED', 'JAX_PLATFORMS')}")
    noted = run("import jax; jax.config.update('jax_platforms', ''); print(jax.default_backend())")
    run("os.environ.update(hidden)")
    assert noted.startswith("cpu\n"), noted
    assert noted.count("Warning: JAX uses the CPU in this kernel, not the TPU") == 1
    assert f"`jupyter tpu doctor {NAME}`" in noted
    assert "Warning" not in run("jax.numpy.ones(3).sum()")

    assert run("!echo a shell").splitlines() == ["a shell"], "it is harmless, so nothing is said"
    warned = run("import multiprocessing as m\nwith m.get_context('fork').Pool(2): pass")
    assert warned.count("Warning: this process was forked after JAX started") == 1
    assert "get_context('spawn')" in warned
    assert "os.fork() was called" not in warned, "JAX's own words"
    assert "JAX" not in run(fork), "it is said once"


def until_idle(server: Server, *words: str) -> subprocess.CompletedProcess[str]:
    """Runs a command when host 1 has what cells of other tests have changed."""

    def run() -> subprocess.CompletedProcess[str] | None:
        done = server.cli(*words)
        return None if "are being changed" in done.stderr else done

    return until(run)


def run_installs(run: Callable[[str], str], ways: dict[str, str]) -> None:
    """Runs cells that install packages, each of which is imported at once."""
    for command, package in ways.items():
        printed = run(f"{command}\nimport {package}; print('imported', {package}.__name__)")
        assert f"imported {package}" in printed, printed
        assert "fork" not in printed
        assert "estart" not in printed


def test_what_is_installed_from_a_kernel_that_has_used_jax_is_on_all_hosts(server, run):
    run("import jax; jax.numpy.ones(3)")
    began = time.monotonic()
    printed = run("%pip install six>=1.10")  # no shell that makes a file "=1.10" of it
    print(f"%pip took {time.monotonic() - began:.1f} s")
    assert "+ six==" in printed
    run_installs(run, {"!uv pip install iniconfig": "iniconfig"})
    assert "six" in run("!pip list")
    expected = ["six>=1.10", "iniconfig"]
    wait_until_recorded(server, expected)
    assert on_host(server, 1, "import six, iniconfig; print(42)") == "42\n"

    # A new connection with the same packages finds all as it was: nothing is verified again.
    done = server.finish(server.tpu("POST", f"tpus/{NAME}/connect", {}))
    assert "The environment is complete; it was verified when it was created" in done["log"]
    assert environment(server)["packages"] == expected


def test_a_kernel_that_has_used_jax_holds_the_chips_of_its_emulated_host(server, run):
    run("import jax; jax.numpy.ones(3)")
    pid = int(run("import os; print(os.getpid())"))
    use = json.loads(server.cli("chips", "list", NAME, "--json").stdout)
    [holder] = use["hosts"][0]["holders"]
    assert (holder["pid"], holder["devices"]) == (pid, use["hosts"][0]["devices"])
    assert holder["kernel"]
    assert use["hosts"][1]["holders"] == []
    report = server.cli("doctor", NAME).stdout
    assert f"process {pid}" in report or f"(PID {pid})" in report, report


@pytest.mark.long
def test_each_other_way_to_install_works_too(server, run):
    run("import jax; jax.numpy.ones(3)")
    ways = {
        "!pip install toolz": "toolz",
        "%uv pip install pluggy": "pluggy",
        "import sys\n!{sys.executable} -m pip install -q --user cloudpickle": "cloudpickle",
    }
    before = environment(server)["packages"]
    run_installs(run, ways)
    wait_until_recorded(server, [*before, *ways.values()])
    assert on_host(server, 1, "import toolz, pluggy, cloudpickle; print(42)") == "42\n"


def test_a_host_that_cant_reach_the_first_one_is_named(server, emulator, monkeypatch):
    for variable in FOLDERS:  # this user's SSH key
        monkeypatch.setenv(variable, server.environment[variable])
    monkeypatch.setattr(pod, "_REACH_SECONDS", 1)
    monkeypatch.setattr(pod, "_JOIN_SECONDS", 2)
    log: list[str] = []
    python = environment(server)["path"] + "/bin/python"
    # An address for documentation, which no machine has (RFC 5737).
    expected = ExpectedHardware(emulated=True, devices_per_host=4, coordinator="192.0.2.1")

    async def check() -> None:
        links = Links(CloudTPU(Target(emulator=str(emulator.state_file))))
        try:
            name = NodeName(links.cloud.project, "us-central2-b", NAME)
            hosts = [links.get(HostName(name, worker)) for worker in (0, 1)]
            await pod.require_pod(hosts, python, expected, log.append)
        finally:
            await links.close()

    missing = r"^Host 1 can't reach host 0 at 192\.0\.2\.1:84\d\d\. Allow"
    with pytest.raises(TPUError, match=missing):
        core_thread().wait(check(), timeout=120)


def test_a_restart_is_asked_for_only_when_an_imported_package_was_replaced(server, run):
    assert "estart" not in run("%pip install zipp==3.20.0")
    run("import zipp")
    assert "Restart the kernel to use zipp 3.21.0" in run("%pip install zipp==3.21.0")
    assert "estart" not in run("print(zipp.__name__)")
    printed = run("%pip uninstall -y zipp")
    assert "- zipp==3.21.0" in printed
    assert "estart" not in printed


def test_packages_are_listed_added_and_removed_on_all_hosts(server):
    added = until_idle(server, "env", "add", NAME, "einops")
    assert added.returncode == 0, added.stderr
    assert "einops" in server.cli("env", "list", NAME).stdout
    rows = {package["name"]: package for package in server.tpu("GET", f"{HOME}/packages")}
    assert rows["einops"]["requested"]
    assert rows["ipykernel"]["required"]
    assert on_host(server, 1, "import einops; print(42)") == "42\n"
    server.finish(server.tpu("POST", f"{HOME}/packages", {"remove": ["einops"]}))
    assert "einops" not in environment(server)["packages"]
    for host in (0, 1):
        assert "No module named" in on_host(server, host, "import einops")


def test_a_typo_is_one_plain_sentence_and_nothing_changes(server):
    before = environment(server)
    failed = server.cli("env", "add", NAME, "matplotlb")
    assert failed.returncode == 1
    assert "Package matplotlb was not found." in failed.stderr
    assert environment(server) == before
    with pytest.raises(urllib.error.HTTPError) as refused:
        server.tpu("POST", f"{HOME}/packages", {"remove": ["jax"]})
    assert json.load(refused.value)["message"] == ("jax can't be removed: kernels on TPUs need it.")


def test_what_ipykernel_needs_is_not_removed_by_whatever_way(server, run):
    rows = {package["name"]: package for package in server.tpu("GET", f"{HOME}/packages")}
    needed = [name for name, row in rows.items() if row["required"]]
    assert {"comm", "ipython", "traitlets", "numpy"} < set(needed)
    refused = server.cli("env", "remove", NAME, "comm")
    assert refused.returncode == 1
    assert "comm can't be removed: kernels on TPUs need it." in refused.stderr
    printed = run("%pip uninstall -y traitlets\n!uv pip uninstall IPython")
    for name in ("traitlets", "ipython"):
        assert f"{name} can't be removed: kernels on TPUs need it." in printed
    after = {package["name"]: package for package in server.tpu("GET", f"{HOME}/packages")}
    assert after == rows


def test_a_failed_environment_says_so_once_and_can_be_removed(server):
    asked = {"environment": "typo", "packages": ["matplotlb"]}
    operation = server.tpu("POST", f"tpus/{NAME}/connect", asked)
    until(lambda: server.tpu("GET", f"operations/{operation['id']}")["state"] == "failed")
    tpu = server.tpu("GET", f"tpus/{NAME}")
    [failed] = [environment for environment in tpu["environments"] if environment["name"] == "typo"]
    assert failed["problem"]["message"] == "Package matplotlb was not found."
    assert failed["asked"]["packages"] == ["matplotlb"]
    # The TPU is connected: there is nothing to say about it but at the environment.
    assert (tpu["connection"], tpu["problem"]) == ("connected", None)
    server.finish(server.tpu("DELETE", f"tpus/{NAME}/environments/typo"))
    assert [
        environment["name"] for environment in server.tpu("GET", f"tpus/{NAME}/environments")
    ] == ["default"]


def test_the_doctor_checks_all_hosts_and_names_the_one_that_differs(server):
    folder = (
        'import pathlib, shutil, sysconfig; folder = pathlib.Path(sysconfig.get_path("purelib")) '
        '/ "drift-1.0.dist-info"'
    )
    metadata = "Metadata-Version: 2.1\\nName: drift\\nVersion: 1.0\\n"
    write = f'folder.mkdir(); (folder / "METADATA").write_text("{metadata}") and None'
    assert on_host(server, 1, f"{folder}; {write}") == ""
    try:
        checked = server.cli("doctor", NAME, "--json")
        described = server.cli("describe", NAME).stdout
    finally:
        assert on_host(server, 1, f"{folder}; shutil.rmtree(folder)") == ""
    assert checked.returncode == 1, checked.stderr
    answer = json.loads(checked.stdout)
    assert not answer["healthy"]
    checks = {(finding["host"], finding["check"]) for finding in answer["findings"]}
    both = {"connection", "agent", "chips", "holders", "jax", "disk", "clock"}
    assert checks >= {(host, check) for host in (0, 1) for check in both} | {(1, "ports")}
    differs = [finding for finding in answer["findings"] if finding["state"] != "ok"]
    [drift] = [difference for difference in differs if difference["check"] == "versions"]
    # A kernel of another test may still hold the chips of host 0.
    assert {difference["check"] for difference in differs} <= {"versions", "holders", "jax"}, (
        differs
    )
    assert (drift["host"], drift["check"]) == (1, "versions")
    assert drift["message"] == (
        "default has other versions than on host 0: drift 1.0 instead of none."
    )
    assert any("4 cpu devices" in finding["message"] for finding in answer["findings"])
    # What was found is shown until the next check.
    assert "default differs on host 1 (checked at 2" in described
    assert "): drift 1.0 instead of none" in described
    assert f"To give all hosts the same: jupyter tpu env sync {NAME} default" in described
    versions = environment(server)["versions"]
    assert versions["different"] == [{"host": 1, "versions": "drift 1.0 instead of none"}]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a package that is in no index."""
    folder = tmp_path_factory.mktemp("wheel")
    files = {
        "ours.py": "answer = 42\n",
        "ours-3.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: ours\nVersion: 3.0\n",
        "ours-3.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    files["ours-3.0.dist-info/RECORD"] = "".join(f"{path},,\n" for path in files)
    with zipfile.ZipFile(folder / "ours-3.0-py3-none-any.whl", "w") as file:
        for path, text in files.items():
            file.writestr(path, text)
    handler = functools.partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{web.server_port}/ours-3.0-py3-none-any.whl"
        web.shutdown()


@pytest.fixture(scope="module")
def locked(server: Server, wheel: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An environment from a lock file and a setup script; its name."""
    folder, name = tmp_path_factory.mktemp("locked"), "locked"
    lock, script = folder / "lock.txt", folder / "setup.sh"
    lock.write_text(f"# of another TPU\nsix==1.16.0\nours @ {wheel}\n")
    script.write_text("echo set up >~/set-up-$JUPYTER_TPU_HOST\n")
    files = ("--lock", str(lock), "--setup-script", str(script))
    made = until_idle(server, "env", "create", NAME, name, *files)
    assert made.returncode == 0, made.stderr
    return name


@pytest.mark.long
def test_a_lock_gives_all_hosts_the_same_versions_and_is_printed_again(
    server, wheel, locked, tmp_path
):
    for host in (0, 1):
        assert in_shell(server, host, f"cat set-up-{host}") == "set up\n"
        code = "import six, ours; print(six.__version__, ours.answer)"
        assert on_host(server, host, code, locked) == "1.16.0 42\n"
    printed = server.cli("env", "lock", NAME, locked, "--output", str(tmp_path / "again.txt"))
    assert printed.returncode == 0, printed.stderr
    again = (tmp_path / "again.txt").read_text()
    assert "six==1.16.0\n" in again
    assert f"ours @ {wheel}\n" in again
    assert re.search(r"^jax==", again, re.MULTILINE)
    assert (tmp_path / "again.txt").stat().st_mode & 0o777 == 0o600


@pytest.mark.long
def test_a_host_that_differs_is_given_the_packages_of_host_0(server):
    added = until_idle(server, "env", "add", NAME, "toolz==0.12.0")
    assert added.returncode == 0, added.stderr
    version = "import toolz; print(toolz.__version__)"
    path = environment(server)["path"]
    server.on_host(NAME, 1, f"{path}/bin/uv", "pip", "install", "-q", "toolz==1.0.0")
    assert on_host(server, 1, version) == "1.0.0\n"
    synced = until_idle(server, "env", "sync", NAME)
    assert synced.returncode == 0, synced.stderr
    assert on_host(server, 1, version) == "0.12.0\n"
    assert "default has the same versions on all hosts" in server.cli("describe", NAME).stdout


#: Makes a repository of apt with `stand-in`, and zsh if the machine has none; and one of git that
#: is taken for oh-my-zsh.
_REPOSITORIES = r"""
umask 022
set -e
mkdir -p ~/apt && cd ~/apt
for name in stand-in zsh; do
  mkdir -p $name/DEBIAN $name/usr/bin
  printf '#!/bin/sh\nexec bash "$@"\n' >$name/usr/bin/$name
  chmod +x $name/usr/bin/$name
  printf 'Package: %s\nVersion: 9.9\nArchitecture: all\nMaintainer: x <x@x>\nDescription: x\n' \
    $name >$name/DEBIAN/control
  dpkg-deb --build --root-owner-group $name $name.deb >/dev/null
  cat $name/DEBIAN/control
  echo "Filename: ./$name.deb"
  echo "Size: $(stat -c %s $name.deb)"
  echo "SHA256: $(sha256sum <$name.deb | cut -d' ' -f1)"
  echo
done >Packages
sudo sh -c 'rm -rf /etc/apt/sources.list.d/*; echo "deb [trusted=yes] file:$1 ./" \
  >/etc/apt/sources.list' sh ~/apt
chmod o+x ~
git init -q ~/omz && cd ~/omz && mkdir templates && echo true >oh-my-zsh.sh
echo '# settings' >templates/zshrc.zsh-template
git add . && git -c user.name=x -c user.email=x@x commit -qm x
git config --global url.file://$HOME/omz.insteadOf https://github.com/ohmyzsh/ohmyzsh.git
"""


def in_shell(server: Server, host: int, script: str) -> str:
    """What a script prints on a host."""
    return server.on_host(NAME, host, "bash", "-c", script)


@pytest.mark.long
def test_hosts_get_what_was_asked_for_and_only_what_is_missing_is_done_again(server, tmp_path):
    for host in (0, 1):
        in_shell(server, host, _REPOSITORIES)
    script = tmp_path / "setup.sh"
    script.write_text(
        'echo run >>~/runs && stand-in -c "echo on host $JUPYTER_TPU_HOST as $(sudo -n whoami)"\n'
        'python -c "import jax" && [ $JUPYTER_TPU_HOST != 1 -o -e ~/disk ]\n'
    )
    options = ("--apt", "stand-in=9.9", "--timezone", "Asia/Tokyo", "--oh-my-zsh")
    failed = until_idle(server, "connect", NAME, *options, "--setup-script", str(script))
    assert failed.returncode == 1
    assert "On host 1: The setup script failed with exit code 1: " in failed.stderr
    assert "The other host has finished." in failed.stderr
    for host in (0, 1):
        look = "cat /etc/timezone; date +%Z; getent passwd $(id -un) | cut -d: -f7; cat ~/.zshrc"
        assert in_shell(server, host, look) == "Asia/Tokyo\nJST\n/usr/bin/zsh\n# settings\n"

    in_shell(server, 1, "touch disk")
    again = server.tpu("POST", f"tpus/{NAME}/connect", environment(server)["asked"])
    done = server.finish(again)
    assert {step["title"]: step["state"] for step in done["steps"]} == {
        "SSH key": "done",
        "Connect to the hosts": "done",
        "Check the hosts": "done",
        "Install packages of apt": "skipped",
        "Set the time zone": "skipped",
        "Get uv": "skipped",
        "Create the environment": "skipped",
        "Choose the versions": "done",
        "Install JAX and packages": "done",
        "Install oh-my-zsh": "skipped",
        "Run the setup script": "done",
        "Check JAX and its devices": "done",
        "Add the kernel to Jupyter": "done",
    }
    assert "host 1: on host 1 as root" in done["log"]
    assert "host 0: on host 0 as root" not in done["log"]
    assert [in_shell(server, host, "cat runs") for host in (0, 1)] == ["run\n", "run\nrun\n"]
    setup = environment(server)["setup"]
    assert (setup["apt"], setup["script"]) == (["stand-in=9.9"], script.read_text())
    lock = server.tpu("GET", f"{HOME}/lock")
    assert lock["setup"] == setup


@pytest.mark.parametrize(
    ("setup", "sentence"),
    [
        ({"apt": ["a b"]}, "'a b' is not a package of apt."),
        ({"apt": ["-x"]}, "'-x' is not a package of apt."),
        ({"apt": ["tree;reboot"]}, "'tree;reboot' is not a package of apt."),
        ({"timezone": "Europe/Berln"}, "'Europe/Berln' is not a time zone."),
        ({"timezone": "../etc/passwd"}, "'../etc/passwd' is not a time zone."),
        ({"script": "echo\0"}, "The setup script has a NUL character, so it is not a text file."),
        ({"script": "#" * 70_000}, "The setup script is 68 KiB; it can have 64 KiB."),
        ({"shell": "zsh"}, "The field setup.shell does not exist."),
    ],
)
def test_what_can_not_be_meant_is_refused_at_once(server, setup, sentence):
    with pytest.raises(urllib.error.HTTPError) as refused:
        server.tpu("POST", f"tpus/{NAME}/connect", {"setup": setup})
    assert refused.value.code == 400
    assert json.load(refused.value)["message"] == sentence


@pytest.mark.long
def test_a_host_that_dies_while_packages_are_added_is_named_and_the_others_finish(server, emulator):
    tpu = "tpus/dies"
    body = {"name": "dies", "type": "v4-32", "zone": "us-central2-b"}
    server.finish(server.tpu("POST", "tpus", body))
    server.finish(server.tpu("POST", f"{tpu}/connect", {}))

    def hold(host: int) -> str:
        """Keeps the environment of a host busy until the run is stopped."""
        command = ["flock", ".jupyter-tpu/environments/.default.lock", "sh", "-c"]
        request = {"command": [*command, "echo held; sleep 600"], "hosts": str(host)}
        run = f"{tpu}/runs/{server.tpu('POST', f'{tpu}/runs', request)['id']}"
        until(lambda: server.tpu("GET", f"{run}/output")["output"])
        return run

    busy = {host: hold(host) for host in (1, 3)}
    operation = server.tpu("POST", f"{tpu}/environments/default/packages", {"add": ["einops"]})
    path = f"operations/{operation['id']}"
    waits = {f"host {host}: Waiting for another connection that is working on it" for host in busy}
    until(lambda: waits <= set(server.tpu("GET", path)["log"]))
    os.kill(emulator.hosts("dies")[3]["init_pid"], signal.SIGKILL)
    until(lambda: server.tpu("GET", tpu)["hosts"][3]["link"]["state"] != "up")
    assert server.tpu("GET", path)["state"] == "running"
    server.tpu("DELETE", busy[1])
    until(lambda: server.tpu("GET", path)["state"] == "failed")
    problem = server.tpu("GET", path)["problem"]
    assert re.search(r"\bhost 3\b.* The other 3 hosts have finished\.", problem["message"])
    for host in range(3):
        python = ".jupyter-tpu/environments/default/bin/python"
        code = "import einops; print(42)"
        assert server.on_host("dies", host, python, "-c", code) == "42\n"
    server.finish(server.tpu("DELETE", f"{tpu}?end_kernels=true&end_jobs=true"))


@pytest.mark.long
def test_the_next_tpu_gets_the_same_versions_and_setup_by_the_name_of_the_environment(
    server, locked
):
    before = server.tpu("GET", f"tpus/{NAME}/environments/{locked}/lock")
    body = {"name": "next", "type": "v4-8", "zone": "us-central2-b"}
    server.finish(server.tpu("POST", "tpus", body))
    done = server.finish(server.tpu("POST", "tpus/next/connect", {"environment": locked}))
    assert any("gets the versions that it had on packages" in line for line in done["log"])
    assert "packages is a v4-16, and next is a v4-8" in done["log"]
    after = server.tpu("GET", f"tpus/next/environments/{locked}/lock")
    assert after["text"] == before["text"]
    assert (after["python"], after["setup"]) == (before["python"], before["setup"])
    assert server.on_host("next", 0, "cat", "set-up-0") == "set up\n"
    server.finish(server.tpu("DELETE", "tpus/next?end_kernels=true"))


@pytest.mark.long
def test_a_setup_script_goes_on_after_the_server_was_killed_but_not_where_it_has_ended(
    server, emulator
):
    script = (
        "echo begun >>~/told; [ $JUPYTER_TPU_HOST = 0 ] ||\n"
        "  until [ -e ~/go ]; do sleep 0.1; done\n"
        "echo ended >>~/told\n"
    )
    asked = {"setup": {"script": script}}
    connecting = server.tpu("POST", f"tpus/{NAME}/connect", asked)["id"]

    def script_log(host: int) -> str:
        return in_shell(server, host, "cat told || true").replace("\n", " ").strip()

    def running() -> list[str]:
        shown = [str(p["cmdline"]) for host in emulator.hosts(NAME) for p in host["processes"]]
        return [line for line in shown if "/proc/self/fd/" in line]

    until(lambda: (script_log(0), script_log(1)) == ("begun ended", "begun"), LIMIT)
    assert running()
    server.kill()
    until(lambda: not running(), LIMIT)
    server.start()
    until(lambda: script_log(1) == "begun begun", LIMIT)
    in_shell(server, 1, "touch go")
    done = server.finish({"id": connecting})
    assert "Continuing" in str(done["log"])
    assert (script_log(0), script_log(1)) == ("begun ended", "begun begun ended")
    assert environment(server)["setup"]["script"] == script

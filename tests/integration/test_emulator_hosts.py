"""TPUs of the emulator as machines: real OpenSSH clients, restarts, and faults on purpose."""

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from waiting import until

Tpu = dict[str, Any]


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("key") / "id"
    subprocess.run(
        ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", path], check=True
    )
    return path


def ssh_keys(key: Path, user: str = "ann") -> dict[str, str]:
    return {"ssh-keys": f"{user}:{key.with_suffix('.pub').read_text().strip()}"}


class Shell:
    """OpenSSH's own client, with the host key pinned from the guest attributes."""

    def __init__(self, emulator: Any, key: Path, folder: Path, user: str = "ann") -> None:
        self.emulator, self.key, self.folder, self.user = emulator, key, folder, user

    def __call__(self, node: Tpu, command: str, worker: int = 0, check: bool = True) -> str:
        done = self.run(node, command, worker)
        assert not check or done.returncode == 0, done.stderr
        return done.stdout.strip()

    def run(self, node: Tpu, command: str, worker: int = 0) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.command(node, worker), command], capture_output=True, text=True, timeout=60
        )

    def command(self, node: Tpu, worker: int = 0) -> list[str]:
        answer = self.emulator.request("POST", f"/v2/{node['name']}:getGuestAttributes", {})
        items = {
            (item["namespace"], item["key"]): item["value"]
            for item in answer["guestAttributes"][worker]["queryValue"]["items"]
        }
        node = self.emulator.request("GET", f"/v2/{node['name']}")
        address = node["networkEndpoints"][worker]["accessConfig"]["externalIp"]
        alias = f"tpu.{node['id']}-{worker}"
        known = self.folder / "known_hosts"
        known.write_text(f"{alias} ssh-ed25519 {items['hostkeys', 'ssh-ed25519']}\n")
        options = {
            "HostKeyAlias": alias,
            "UserKnownHostsFile": known,
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "IdentitiesOnly": "yes",
            "BatchMode": "yes",
            "ConnectTimeout": "60",
        }
        return [
            *("ssh", "-F", "none", "-i", str(self.key), "-p", items.get(("ssh", "port"), "22")),
            *(word for name, value in options.items() for word in ("-o", f"{name}={value}")),
            f"{self.user}@{address}",
        ]


@pytest.fixture
def shell(emulator: Any, key: Path, tmp_path: Path) -> Shell:
    return Shell(emulator, key, tmp_path)


def test_a_key_in_the_metadata_lets_its_user_in_and_the_host_is_a_tpu_vm(
    create_tpu, shell, key, emulator
):
    started = {"startup-script": "date >> /var/log/started; id -u >> /var/log/started"}
    node = create_tpu(name="vm", type="v5litepod-8", metadata={**ssh_keys(key), **started})
    (host,) = emulator.hosts("vm")
    output = shell(node, 'echo "$(id -un) $(hostname) $HOME"; env')
    first, *rest = output.splitlines()
    assert first == f"ann {host['hostname']} /home/ann"
    variables = dict(line.split("=", 1) for line in rest if "=" in line)
    assert variables["JAX_NUM_CPU_DEVICES"] == "8"
    assert variables["JAX_PLATFORMS"] == "cpu"
    assert variables["JUPYTER_TPU_EMULATED"] == "1"
    assert variables["TPU_ACCELERATOR_TYPE"] == "v5litepod-8"
    assert variables["TPU_WORKER_ID"] == "0"
    assert variables["TPU_NAME"] == "vm"
    assert shell(node, "python3 -c 'import sys; print(sys.version_info >= (3, 8))'") == "True"
    boot = until(lambda: shell(node, "cat /var/log/started", check=False).splitlines()[1:])
    assert boot == ["0" if emulator.state.mode != "user" else shell(node, "id -u")], "root's, once"


def test_a_key_added_later_works_at_once_and_a_removed_one_no_longer(
    create_tpu, shell, key, emulator
):
    node = create_tpu()
    assert "Permission denied" in shell.run(node, "true").stderr
    path = f"/v2/{node['name']}?updateMask=metadata"
    emulator.wait(emulator.request("PATCH", path, {"metadata": ssh_keys(key)}))
    assert shell(node, "id -un") == "ann"
    emulator.wait(emulator.request("PATCH", path, {"metadata": {}}))
    assert "Permission denied" in shell.run(node, "true").stderr


def test_maintenance_gives_another_address_and_a_reboot_the_same(
    create_tpu, faults, shell, key, emulator
):
    node = create_tpu(name="moved", metadata=ssh_keys(key))
    (before,) = emulator.hosts("moved")
    faults(kind="reboot", node="moved")
    until(lambda: emulator.hosts("moved")[0]["init_pid"] not in (None, before["init_pid"]))
    (rebooted,) = emulator.hosts("moved")
    assert rebooted["address"] == before["address"]
    faults(kind="maintenance", node="moved")
    until(lambda: emulator.request("GET", f"/v2/{node['name']}")["state"] == "READY")
    until(lambda: emulator.hosts("moved")[0]["running"])
    (moved,) = emulator.hosts("moved")
    assert moved["address"] != before["address"]
    assert shell(node, "id -un") == "ann"


def test_a_host_that_is_rebooted_from_inside_comes_back(create_tpu, shell, key, emulator):
    node = create_tpu(name="inside", metadata=ssh_keys(key))
    (before,) = emulator.hosts("inside")
    os.kill(before["init_pid"], 9)
    until(lambda: emulator.hosts("inside")[0]["init_pid"] not in (None, before["init_pid"]))
    assert shell(node, "id -un") == "ann"


def test_hosts_can_lack_pythons_tools_or_disk(create_tpu, shell, key, emulator):
    bare = create_tpu(metadata={**ssh_keys(key), "emulator-without-python-tools": "true"})
    assert shell.run(bare, "python3 -m venv x").returncode != 0
    none = create_tpu(metadata={**ssh_keys(key), "emulator-without-python": "true"})
    assert shell.run(none, "python3 --version").returncode == 127
    small = create_tpu(metadata={**ssh_keys(key), "emulator-disk-limit-mb": "8"})
    full = shell.run(small, "head -c 20000000 /dev/zero > file")
    assert "No space left on device" in full.stderr
    with pytest.raises(Exception, match="emulator-disk-limit-mb is a number of MiB, not 'x'"):
        create_tpu(metadata={"emulator-disk-limit-mb": "x"})


@pytest.fixture
def own_emulator(tmp_path: Path, isolated_folders: Path, emulator: Any) -> Iterator[Any]:
    """An emulator of this test's own, which it may stop and start."""
    process = type(emulator)(tmp_path / "own")
    yield process
    if process.process.poll() is None:
        process.stop()


def create(emulator: Any, name: str, **fields: Any) -> Tpu:
    parent = "projects/emulated/locations/us-central1-a"
    body = {"acceleratorType": "v5litepod-4", "runtimeVersion": "v2-alpha-tpuv5-lite", **fields}
    emulator.wait(emulator.request("POST", f"/v2/{parent}/nodes?nodeId={name}", body))
    return emulator.request("GET", f"/v2/{parent}/nodes/{name}")


@pytest.mark.parametrize("end", [pytest.param("stop", marks=pytest.mark.long), "kill"])
def test_tpus_outlive_the_emulator(own_emulator, end, key, tmp_path):
    shell = Shell(own_emulator, key, tmp_path)
    node = create(own_emulator, "lasting", metadata=ssh_keys(key))
    stopped = create(own_emulator, "stopped")
    own_emulator.wait(own_emulator.request("POST", f"/v2/{stopped['name']}:stop", {}))
    shell(node, "echo kept > kept")
    pin = own_emulator.request("POST", f"/v2/{node['name']}:getGuestAttributes", {})
    pid = own_emulator.hosts("lasting")[0]["init_pid"]
    before = own_emulator.state

    getattr(own_emulator, end)()
    until(lambda: not Path(f"/proc/{pid}").exists())
    own_emulator.start()

    assert own_emulator.state.id == before.id
    assert (own_emulator.state.rest, own_emulator.state.grpc) == (before.rest, before.grpc)
    assert own_emulator.request("GET", f"/v2/{node['name']}")["id"] == node["id"]
    assert own_emulator.request("POST", f"/v2/{node['name']}:getGuestAttributes", {}) == pin
    assert shell(node, "cat kept") == "kept"
    assert own_emulator.request("GET", f"/v2/{stopped['name']}")["state"] == "STOPPED"
    assert not own_emulator.hosts("stopped")[0]["running"]


def test_an_emulator_killed_in_the_middle_of_a_create_goes_on_with_it(own_emulator):
    parent = "projects/emulated/locations/us-central1-a"
    own_emulator.request("POST", "/emulator/v1/faults", {"kind": "slow", "seconds": 600})
    body = {"acceleratorType": "v5litepod-4", "runtimeVersion": "v2-alpha-tpuv5-lite"}
    operation = own_emulator.request("POST", f"/v2/{parent}/nodes?nodeId=half", body)
    own_emulator.kill()
    own_emulator.start()
    operation = own_emulator.wait(operation)
    assert operation["response"]["state"] == "READY"
    assert own_emulator.hosts("half")[0]["running"]


def test_the_users_own_home_is_unchanged_by_a_hosts_life(emulator, key, tmp_path):
    home = tmp_path / "home"
    for folder in (".ssh", ".cache", "work"):
        (home / folder).mkdir(parents=True)
    (home / ".ssh" / "authorized_keys").write_text("# mine\n")
    (home / "work" / "secret").write_text("mine\n")
    before = snapshot(home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        own = type(emulator)(tmp_path / "own")
    try:
        shell = Shell(own, key, tmp_path)
        node = create(own, "guest", metadata=ssh_keys(key))
        shell(
            node, "echo x > ~/x; mkdir -p ~/.ssh; echo key >> ~/.ssh/authorized_keys; touch /tmp/x"
        )
        secret = shlex.quote(str(home / "work" / "secret"))
        assert shell.run(node, f"cat {secret}").returncode != 0
        shell.run(node, f"echo x > {secret}")
        own.wait(own.request("DELETE", f"/v2/{node['name']}"))
        assert not list((own.state_dir / "hosts").glob(f"{node['id']}-*"))
    finally:
        own.stop()
    assert snapshot(home) == before


def snapshot(folder: Path) -> dict[str, tuple[float, bytes]]:
    """Every file below *folder* with its time of change and content."""
    return {
        str(path.relative_to(folder)): (
            path.stat().st_mtime,
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(folder.rglob("*"))
    }


def test_a_create_whose_hosts_cannot_start_fails_and_leaves_no_node(own_emulator):
    hosts = own_emulator.state_dir / "hosts"
    hosts.rename(hosts.with_name("away"))
    hosts.write_text("in the way")
    parent = "projects/emulated/locations/us-central1-a"
    body = {"acceleratorType": "v5litepod-4", "runtimeVersion": "v2-alpha-tpuv5-lite"}
    operation = own_emulator.wait(
        own_emulator.request("POST", f"/v2/{parent}/nodes?nodeId=a", body)
    )
    assert operation["error"]["code"] == 13
    assert own_emulator.request("GET", f"/v2/{parent}/nodes") == {}
    hosts.unlink()
    hosts.with_name("away").rename(hosts)
    assert create(own_emulator, "a")["state"] == "READY"


def test_without_namespaces_one_host_runs_and_what_it_lacks_is_listed(emulator, key, tmp_path):
    own = type(emulator)(tmp_path / "own", mode="fallback")
    try:
        assert own.state.mode == "fallback"
        assert own.state.skipped
        node = create(own, "only", metadata=ssh_keys(key))
        assert Shell(own, key, tmp_path)(node, "echo $TPU_NAME") == "only"
        with pytest.raises(Exception, match="has 1 host and this machine can run 0 more") as it:
            create(own, "another")
        assert it.value.status == 429
    finally:
        own.stop()

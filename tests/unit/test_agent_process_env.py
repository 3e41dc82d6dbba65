"""The environment that kernels start in, the folders and sockets, and signed messages."""

import json
import os
import stat
import tempfile
from pathlib import Path

import pytest

from jupyter_tpu.on_host.agent.guard.files import guard_path
from jupyter_tpu.on_host.agent.keeper import run_keeper
from jupyter_tpu.on_host.agent.protocol import messages, mounts, paths
from jupyter_tpu.on_host.agent.protocol.paths import (
    keeper_socket,
    kernel_folder,
    private_folder,
    run_folder,
)
from jupyter_tpu.on_host.agent.protocol.process_env import (
    complete_variables,
    login_environment,
    process_environment,
    without_allocator,
)


def test_tcmalloc_is_not_preloaded_into_kernels_but_other_libraries_stay():
    preload = "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4:/opt/loopback.so"
    assert without_allocator({"LD_PRELOAD": preload}) == {"LD_PRELOAD": "/opt/loopback.so"}
    assert without_allocator({"LD_PRELOAD": "/usr/lib/libtcmalloc.so.4"}) == {}
    assert without_allocator({"A": "b"}) == {"A": "b"}


def test_where_our_ray_runs_its_own_commands_send_the_token(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    assert "RAY_AUTH_MODE" not in process_environment()
    (tmp_path / ".jupyter-tpu/ray").mkdir(parents=True)
    (tmp_path / ".jupyter-tpu/ray/state.json").touch()
    assert process_environment()["RAY_AUTH_MODE"] == login_environment()["RAY_AUTH_MODE"] == "token"
    assert process_environment(variables={"RAY_AUTH_MODE": "x"})["RAY_AUTH_MODE"] == "x"


def test_kernels_keep_the_hosts_tpu_variables_and_lose_those_of_the_login(monkeypatch, tmp_path):
    monkeypatch.setenv("TPU_WORKER_ID", "3")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setenv("SSH_CONNECTION", "1.2.3.4 5 6.7.8.9 22")
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "pyvenv.cfg").touch()
    variables = process_environment(str(tmp_path / "env/bin/python"))
    assert variables["TPU_WORKER_ID"] == "3"
    assert variables["JAX_PLATFORMS"] == "cpu"
    assert "SSH_CONNECTION" not in variables
    assert "PYTHONPATH" not in variables
    assert variables["PATH"].split(os.pathsep)[0] == str(tmp_path / "env/bin")
    assert variables["VIRTUAL_ENV"] == str(tmp_path / "env")
    assert variables["JAX_COMPILATION_CACHE_DIR"] == str(tmp_path / ".cache/jupyter-tpu/jax")


def test_compiled_programs_are_kept_in_an_environment_of_ours_and_deleted_with_it(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR", raising=False)
    ours = tmp_path / ".jupyter-tpu/environments/default"
    (ours / "bin").mkdir(parents=True)
    (ours / "pyvenv.cfg").touch()
    variables = process_environment(str(ours / "bin/python"))
    assert variables["JAX_COMPILATION_CACHE_DIR"] == str(ours / "jax-cache")
    mine = process_environment(base={"JAX_COMPILATION_CACHE_DIR": "gs://mine/cache"})
    assert mine["JAX_COMPILATION_CACHE_DIR"] == "gs://mine/cache"


def test_a_variable_that_libtpu_has_renamed_is_set_under_both_names():
    host = {"TPU_VISIBLE_DEVICES": "0,1,2,3", "TPU_CHIPS_PER_HOST_BOUNDS": "2,2,1"}
    asked = {"TPU_VISIBLE_CHIPS": "2", "TPU_CHIPS_PER_PROCESS_BOUNDS": "1,1,1"}
    variables = process_environment(variables=asked, base=host)
    assert variables["TPU_VISIBLE_CHIPS"] == variables["TPU_VISIBLE_DEVICES"] == "2"
    assert (
        variables["TPU_CHIPS_PER_HOST_BOUNDS"]
        == variables["TPU_CHIPS_PER_PROCESS_BOUNDS"]
        == "1,1,1"
    )


def host_with(folder: Path, chips: int, device_id: str = "0x0063") -> str:
    """The root folder of a host with chips on its PCI bus; by default those of v5e."""
    for number in range(chips):
        device = folder / f"sys/bus/pci/devices/0000:00:0{number}.0"
        device.mkdir(parents=True)
        (device / "vendor").write_text("0x1ae0\n")
        (device / "device").write_text(f"{device_id}\n")
    return str(folder)


@pytest.mark.parametrize(
    ("visible", "chips", "bounds"),
    [
        ("2", 8, "1,1,1"),
        ("0", 1, "1,1,1"),
        ("2,3", 4, "1,2,1"),
        ("0,1,2,3", 4, "2,2,1"),
        ("4,5,6,7", 8, "1,4,1"),
        ("0,1,2,3,4,5,6,7", 8, "2,4,1"),
        ("0,1,2", 4, None),
        ("0", 0, None),
        ("", 4, None),
    ],
)
def test_chosen_chips_get_their_layout(tmp_path, visible, chips, bounds):
    variables = complete_variables({"TPU_VISIBLE_CHIPS": visible}, host_with(tmp_path, chips))
    assert variables["TPU_VISIBLE_DEVICES"] == visible
    assert variables.get("TPU_CHIPS_PER_PROCESS_BOUNDS") == bounds
    assert variables.get("TPU_CHIPS_PER_HOST_BOUNDS") == bounds
    assert variables.get("TPU_PROCESS_BOUNDS") == variables.get("TPU_HOST_BOUNDS")
    assert variables.get("TPU_PROCESS_BOUNDS") == (bounds and "1,1,1")


def test_the_chips_of_a_tpu_8i_host_are_in_one_row(tmp_path):
    root = host_with(tmp_path, 4, "0x0083")
    for visible, bounds in (("0,1,2,3", "4,1,1"), ("2,3", "2,1,1"), ("1", "1,1,1")):
        variables = complete_variables({"TPU_VISIBLE_CHIPS": visible}, root)
        assert variables["TPU_CHIPS_PER_PROCESS_BOUNDS"] == bounds


def test_a_layout_that_was_chosen_stays(tmp_path):
    asked = {"TPU_VISIBLE_DEVICES": "0,1,2,3", "TPU_CHIPS_PER_HOST_BOUNDS": "4,1,1"}
    variables = complete_variables(asked, host_with(tmp_path, 8))
    assert variables["TPU_CHIPS_PER_PROCESS_BOUNDS"] == "4,1,1"
    assert "TPU_PROCESS_BOUNDS" not in variables


def test_everything_is_below_one_private_folder(monkeypatch):
    with tempfile.TemporaryDirectory() as home:
        monkeypatch.setenv("HOME", home)
        run = run_folder()
        assert run == f"{home}/.jupyter-tpu/run"
        for folder in (f"{home}/.jupyter-tpu", run):
            assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        assert kernel_folder(run, "../../etc").startswith(run + "/k-")


def test_sockets_of_a_very_long_home_are_in_tmp_and_short_enough(monkeypatch, tmp_path):
    home = tmp_path / ("very-long-" * 8)
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    run = run_folder()
    try:
        assert run.startswith(f"/tmp/jupyter-tpu-{os.getuid()}-")
        assert len(keeper_socket(run, "x" * 100)) <= paths.LONGEST_SOCKET
    finally:
        os.rmdir(run)


def test_a_folder_that_somebody_else_can_enter_is_closed_to_them(tmp_path):
    (tmp_path / "open").mkdir(mode=0o755)
    assert private_folder(str(tmp_path / "open"))
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o700


def test_a_link_of_the_user_to_another_disk_is_followed_and_what_is_wrong_with_it_is_said(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    disk, link = tmp_path / "disk" / "mine", tmp_path / "home" / ".jupyter-tpu"
    link.parent.mkdir()
    link.symlink_to(disk)
    with pytest.raises(FileNotFoundError, match=r"disk/mine, to which .* leads, does not exist"):
        paths.base_folder()
    disk.mkdir(parents=True, mode=0o755)
    assert paths.base_folder() == str(link)
    assert stat.S_IMODE(disk.stat().st_mode) == 0o700
    (disk / "data").touch()
    disk.chmod(0o755)  # that of a whole disk, say
    with pytest.raises(PermissionError, match="can be read by others"):
        paths.base_folder()
    assert stat.S_IMODE(disk.stat().st_mode) == 0o755
    link.unlink()
    link.write_text("")
    with pytest.raises(NotADirectoryError, match="is not a folder"):
        paths.base_folder()


@pytest.mark.skipif(os.getuid() != 0, reason="SKIPPED: only root can make another user's files")
def test_what_belongs_to_another_user_is_refused(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    os.lchown(tmp_path / "link", 12345, 12345)
    with pytest.raises(NotADirectoryError):
        private_folder(str(tmp_path / "link"))
    os.chown(tmp_path / "real", 12345, 12345)
    with pytest.raises(PermissionError, match="belongs to another user"):
        private_folder(str(tmp_path / "real"))


def test_hosts_that_share_a_home_folder_share_no_sockets_locks_and_jobs(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert paths.jobs_folder() == f"{tmp_path}/.jupyter-tpu/jobs"
    table = tmp_path / "mountinfo"
    table.write_text(
        "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
        f"2 1 0:9 / {tmp_path} rw shared:1 - nfs4 10.0.0.2:/home rw\n"
        f"3 1 0:9 / {tmp_path}-other rw - ext4 /dev/sdb1 rw\n"
    )
    monkeypatch.setattr(mounts, "TABLE", str(table))
    run = run_folder()
    try:
        assert run.startswith(f"/tmp/jupyter-tpu-{os.getuid()}-")
    finally:
        os.rmdir(run)
    assert paths.jobs_folder() == f"{tmp_path}/.jupyter-tpu/jobs-{os.uname().nodename}"
    assert guard_path("lock").startswith(f"{tmp_path}/.jupyter-tpu/guard-{os.uname().nodename}/")
    assert run_keeper.socket_path("1") is None  # the agent knows a place


def test_messages_are_signed_as_jupyter_clients_expect():
    from jupyter_client.session import Session

    signer = messages.MessageSigner("a key", "keeper")
    parts = signer.message("status", {"execution_state": "idle"}, parent=b'{"msg_id": "1"}')
    session = Session(key=b"a key")
    _, body = session.feed_identities(parts)
    message = session.deserialize(body)
    assert message["msg_type"] == "status"
    assert message["parent_header"]["msg_id"] == "1"
    assert message["content"] == {"execution_state": "idle"}


def test_a_signature_of_another_key_is_noticed():
    parts = messages.MessageSigner("a key", "one").message("status", {}, idents=[b"client"])
    assert messages.MessageSigner("a key", "two").is_signed(parts)
    assert not messages.MessageSigner("another", "two").is_signed(parts)


@pytest.mark.parametrize(
    "parts", [[], [b"x"], [b"<IDS|MSG>"], [b"a", b"<IDS|MSG>", b"sig", b"{}", b"{}"]]
)
def test_what_is_no_jupyter_message_is_told_apart(parts):
    with pytest.raises(ValueError, match="not a Jupyter message"):
        messages.find_delimiter(parts)


def test_a_header_that_is_no_object_is_told_apart():
    parts = [messages.DELIMITER, b"", json.dumps([1]).encode(), b"{}", b"{}", b"{}"]
    with pytest.raises(ValueError, match="not a Jupyter message"):
        messages.decode_part(parts, messages.HEADER)

"""The file of pinned host keys."""

import stat

import asyncssh

from jupyter_tpu.ssh import KnownHosts

ONE = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
TWO = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGVPz0Z6W6u0hC0cs+2dDbIVCVdqEuRQkF5AHpuL0Xx8"


def test_keys_are_pinned_under_the_alias_and_read_back(tmp_path):
    hosts = KnownHosts(tmp_path / "new" / "known_hosts")
    assert hosts.keys("tpu.1-0") == ()
    hosts.pin({"tpu.1-0": [ONE], "tpu.1-1": [TWO, ONE]}, {"tpu.1-0": "p/z/n/0"})
    assert hosts.keys("tpu.1-0") == (ONE,)
    assert hosts.keys("tpu.1-1") == (TWO, ONE)
    assert stat.S_IMODE(hosts.path.stat().st_mode) == 0o600
    assert [item.name for item in hosts.path.parent.iterdir()] == ["known_hosts"]


def test_a_new_node_of_the_same_name_replaces_the_old_ones_keys(tmp_path):
    hosts = KnownHosts(tmp_path / "known_hosts")
    hosts.pin({"tpu.1-0": [ONE]}, {"tpu.1-0": "p/z/n/0"})
    hosts.pin({"tpu.9-0": [ONE]}, {"tpu.9-0": "p/z/other/0"})
    hosts.pin({"tpu.2-0": [TWO]}, {"tpu.2-0": "p/z/n/0"})
    assert hosts.keys("tpu.1-0") == ()
    assert hosts.keys("tpu.2-0") == (TWO,)
    assert hosts.keys("tpu.9-0") == (ONE,)


def test_pinning_again_replaces_and_forgetting_removes(tmp_path):
    hosts = KnownHosts(tmp_path / "known_hosts")
    hosts.pin({"tpu.1-0": [ONE]}, {})
    hosts.pin({"tpu.1-0": [TWO]}, {})
    assert hosts.keys("tpu.1-0") == (TWO,)
    hosts.forget("tpu.1-0")
    assert hosts.keys("tpu.1-0") == ()


def test_openssh_style_readers_understand_the_file(tmp_path):
    hosts = KnownHosts(tmp_path / "known_hosts")
    hosts.pin({"tpu.123-0": [ONE]}, {"tpu.123-0": "p/z/n/0"})
    trusted = asyncssh.match_known_hosts(str(hosts.path), "tpu.123-0", "10.0.0.1", None)[0]
    assert [key.export_public_key().decode().split()[:2] for key in trusted] == [ONE.split()]


def test_comments_and_foreign_lines_stay(tmp_path):
    path = tmp_path / "known_hosts"
    path.write_text(f"# mine\n\n@revoked * {TWO}\nexample.org {ONE}\n")
    hosts = KnownHosts(path)
    hosts.pin({"tpu.1-0": [ONE]}, {"tpu.1-0": "p/z/n/0"})
    assert path.read_text().startswith(f"# mine\n\n@revoked * {TWO}\nexample.org {ONE}\n")

"""Our key file, the login name, and fingerprints."""

import re
import stat
import threading

import asyncssh
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import raises

from jupyter_tpu.errors import Reason
from jupyter_tpu.ssh.keys import (
    ensure_key,
    fingerprint,
    fit_user_name,
    load_key,
    public_key,
    user_name,
)


def test_a_key_is_made_once_and_only_its_owner_can_read_it(tmp_path):
    path = tmp_path / "ssh" / "id_ed25519"
    assert ensure_key(path) == path
    first = path.read_bytes()
    assert public_key(ensure_key(path)).startswith("ssh-ed25519 AAAA")
    assert path.read_bytes() == first
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert path.with_name("id_ed25519.pub").read_text().strip() == public_key(path)


def test_the_key_is_in_our_data_folder_or_where_the_variable_says(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.delenv("JUPYTER_TPU_SSH_KEY", raising=False)
    assert ensure_key() == tmp_path / "data" / "ssh" / "id_ed25519"
    monkeypatch.setenv("JUPYTER_TPU_SSH_KEY", str(tmp_path / "mine"))
    assert ensure_key() == tmp_path / "mine"


def test_many_who_make_the_key_at_once_get_the_same_one(tmp_path):
    path = tmp_path / "id_ed25519"
    keys: list[str] = []
    threads = [
        threading.Thread(target=lambda: keys.append(public_key(ensure_key(path)))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(keys) == 8
    assert len(set(keys)) == 1
    assert sorted(item.name for item in tmp_path.iterdir()) == ["id_ed25519", "id_ed25519.pub"]


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o660])
def test_a_key_that_others_can_read_is_refused_with_the_command_that_mends_it(tmp_path, mode):
    path = ensure_key(tmp_path / "id_ed25519")
    path.chmod(mode)
    with raises(Reason.KEY_FILE) as caught:
        ensure_key(path)
    assert f"mode {mode:04o}" in caught.value.message
    assert f"chmod 600 {path}" in caught.value.hint
    assert stat.S_IMODE(path.stat().st_mode) == mode, "it was changed without asking"


@pytest.mark.parametrize("content", [b"", b"nonsense", b"\xff\xfe", b"ssh-ed25519 AAAA public"])
def test_a_file_that_is_no_private_key_is_refused_and_kept(tmp_path, content):
    path = tmp_path / "id"
    path.write_bytes(content)
    path.chmod(0o600)
    with raises(Reason.KEY_FILE) as caught:
        ensure_key(path)
    assert str(path) in caught.value.message
    assert path.read_bytes() == content


def test_a_key_with_a_passphrase_is_refused_with_one_sentence(tmp_path):
    path = tmp_path / "id"
    key = asyncssh.generate_private_key("ssh-ed25519")
    path.write_bytes(key.export_private_key("pkcs8-pem", passphrase="secret"))
    path.chmod(0o600)
    with raises(Reason.KEY_FILE) as caught:
        ensure_key(path)
    assert "passphrase" in caught.value.message


def test_a_folder_that_can_not_be_made_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with raises(Reason.KEY_FILE):
        ensure_key(tmp_path / "file" / "id")


def test_the_users_own_key_of_another_kind_serves_as_well(tmp_path):
    path = tmp_path / "id_rsa"
    key = asyncssh.generate_private_key("ecdsa-sha2-nistp256")
    path.write_bytes(key.export_private_key())
    path.chmod(0o600)
    assert public_key(ensure_key(path)).startswith("ecdsa-sha2-nistp256 ")
    assert load_key(path).algorithm == b"ecdsa-sha2-nistp256"


@pytest.mark.parametrize(
    ("local", "fit"),
    [
        ("ann", "ann"),
        ("root", "tpu"),
        ("", "tpu"),
        ("Ann.Lee", "ann_lee"),
        ("1st", "_st"),
        ("jovyan", "jovyan"),
        ("DOMAIN\\ann", "domain_ann"),
        ("åsa", "_sa"),
        ("x" * 40, "x" * 32),
    ],
)
def test_the_login_name_is_the_local_one_made_fit_for_linux(local, fit):
    assert fit_user_name(local) == fit


@given(st.text(max_size=50))
def test_every_login_name_is_one_that_useradd_takes(local):
    assert re.fullmatch(r"[a-z_][a-z0-9_-]{0,31}", fit_user_name(local))
    assert fit_user_name(local) != "root"


def test_the_login_name_can_be_chosen():
    assert user_name({"JUPYTER_TPU_SSH_USER": "ubuntu"}) == "ubuntu"


def test_fingerprints_are_those_of_ssh_keygen():
    # ssh-keygen -l of GitHub's published ed25519 host key.
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"
    assert fingerprint(key) == "SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"
    assert fingerprint("ssh-ed25519 ***") == "(unreadable key)"


def test_a_key_file_nobody_may_read_says_so(tmp_path):
    directory = tmp_path / "id"
    directory.mkdir(mode=0o700)
    with raises(Reason.KEY_FILE):
        ensure_key(directory)

"""Files are replaced whole, with their permissions, or stay as they were."""

import os
import stat

import pytest

from jupyter_tpu.local_files import write_atomically


def test_a_file_is_replaced_with_the_permissions_asked_for(tmp_path):
    path = tmp_path / "file"
    path.write_text("old, and longer")
    path.chmod(0o644)
    before = path.stat().st_ino
    assert write_atomically(path, "né\r\n")
    assert path.read_bytes() == "né\r\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.stat().st_ino != before  # who has the old file open still reads all of it
    old = os.umask(0o077)
    try:
        write_atomically(path, b"x", mode=0o644, durable=True)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o644
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_that_is_there_stays_unless_it_may_be_overwritten(tmp_path, monkeypatch):
    path = tmp_path / "file"
    assert write_atomically(path, b"first", overwrite=False)
    assert not write_atomically(path, b"second", overwrite=False)

    def no_links(*_: object) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr("os.link", no_links)
    assert not write_atomically(path, b"third", overwrite=False)
    assert path.read_bytes() == b"first"
    assert write_atomically(tmp_path / "other", b"fourth", overwrite=False)
    assert (tmp_path / "other").read_bytes() == b"fourth"
    assert sorted(os.listdir(tmp_path)) == ["file", "other"]


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path):
    folder = tmp_path / "file"
    folder.mkdir()
    (folder / "inside").touch()
    with pytest.raises(OSError):
        write_atomically(folder, b"content")
    assert os.listdir(tmp_path) == ["file"]
    assert os.listdir(folder) == ["inside"]

"""libtpu's lock file: whom one that is left over keeps out, and when it is deleted."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_tpu.on_host.chips import holders as module
from jupyter_tpu.on_host.chips.holders import delete_left_over, lock_file

OTHER = 54321
only_root = pytest.mark.skipif(os.getuid() != 0, reason="only root gives files to other users")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host's root folder, with a file that is left over."""
    for folder in ("proc/sys/fs", "tmp"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "tmp").chmod(0o1777)
    file = tmp_path / "tmp/libtpu_lockfile"
    file.touch(mode=0o600)
    return tmp_path


def protect(root: Path, level: int) -> None:
    (root / "proc/sys/fs/protected_regular").write_text(f"{level}\n")


def test_a_file_of_ones_own_keeps_nobody_out(root: Path) -> None:
    protect(root, 2)
    lock = lock_file(str(root))
    assert (lock["held"], lock["blocks_user"]) == (False, False)
    (root / "tmp/libtpu_lockfile").unlink()
    assert lock_file(str(root)) == {}


@only_root
def test_another_users_file_keeps_root_out_only_where_it_is_protected(root: Path) -> None:
    os.chown(root / "tmp/libtpu_lockfile", OTHER, OTHER)
    for level, blocked in ((0, False), (1, True), (2, True)):
        protect(root, level)
        lock = lock_file(str(root))
        assert (lock["owner"], lock["blocks_user"]) == (str(OTHER), blocked)
    (root / "tmp").chmod(0o777)  # the system protects sticky folders only
    assert not lock_file(str(root))["blocks_root"]


@only_root
def test_a_file_of_root_keeps_others_out_but_not_root(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    protect(root, 2)
    monkeypatch.setattr(os, "getuid", lambda: OTHER)
    lock = lock_file(str(root))
    assert lock == {"owner": "root", "held": False, "blocks_user": True, "blocks_root": False}


def test_a_lock_is_seen_even_if_its_holder_is_not(root: Path) -> None:
    file = (root / "tmp/libtpu_lockfile").stat()
    place = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    (root / "proc/locks").write_text(f"1: OFDLCK ADVISORY WRITE -1 {place} 0 EOF\n")
    assert lock_file(str(root))["held"]


def test_a_file_is_deleted_only_while_nobody_holds_its_lock(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = root / "tmp/libtpu_lockfile"
    monkeypatch.setattr(module, "LOCK", str(file))
    hold = f"import fcntl; f = open({str(file)!r}, 'r+'); fcntl.lockf(f, fcntl.LOCK_EX); "
    holder = subprocess.Popen(
        [sys.executable, "-c", hold + "print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    holder.stdout.readline()
    assert delete_left_over() == "held"
    assert file.exists()
    holder.communicate(b"\n")
    assert delete_left_over() == "deleted"
    assert not file.exists()
    assert delete_left_over() == "gone"
    file.symlink_to(root / "elsewhere")
    assert delete_left_over() == "refused", "a link leads to somebody's file"

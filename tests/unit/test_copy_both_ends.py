"""The two ends of a copy, joined by a socket instead of SSH: what arrives, and what is kept."""

import contextlib
import errno
import os
import resource
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.files.exchange import peer_over
from jupyter_tpu.on_host.files import contents, part_file
from jupyter_tpu.on_host.files.copy import sender
from jupyter_tpu.on_host.files.copy.receiver import Receiver
from jupyter_tpu.on_host.files.copy.sender import Listing, send_file
from jupyter_tpu.on_host.files.messages import TransferFailure, failure
from jupyter_tpu.on_host.files.part_file import part_name

MIB = 1 << 20
Copy = Callable[..., dict[str, Any]]


def copy(
    *sources: Path,
    to: Path | str,
    overwrite: bool = False,
    make_folder: bool = False,
    listing: Listing | None = None,
    may_write: Callable[[str], bool] | None = None,
    cut: int | None = None,
    meanwhile: Callable[[], object] = lambda: None,
    after: int = 1,
) -> dict[str, Any]:
    """Copies as the command does; *cut* ends the connection after so many bytes of files.

    meanwhile: called when the receiver has so many chunks.
    """
    one, other = socket.socketpair()
    outcomes: list[Any] = []
    sent = 0

    def report(size: int, total: int | None = None) -> None:
        nonlocal sent
        sent += size if total is None else 0
        if cut is not None and sent >= cut:
            one.shutdown(socket.SHUT_RDWR)

    def send() -> None:
        found = listing or Listing([os.fsencode(source) for source in sources])
        with peer_over(one) as peer, contextlib.suppress(TransferFailure):
            sender.send(peer, found.walk(), report)

    def received(*size: int) -> None:
        if len(outcomes) == after:
            meanwhile()
        outcomes.append(size)

    thread = threading.Thread(target=send)
    thread.start()
    with peer_over(other) as peer:
        try:
            outcomes.append(
                Receiver(
                    peer,
                    str(to),
                    overwrite,
                    received,
                    make_folder=make_folder,
                    may_write=may_write,
                ).receive()
            )
        except TransferFailure as failure:
            with contextlib.suppress(TransferFailure):
                peer.send(error=vars(failure))
                peer.flush()
            raise
        finally:
            with contextlib.suppress(OSError):
                other.shutdown(socket.SHUT_RDWR)
            thread.join()
    return {**outcomes[-1], "resumed": outcomes[0][0]}


def tree(folder: Path) -> dict[str, Any]:
    """All that is in a folder: content, mode and time of each file, and where links lead."""
    files: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            files[name] = os.readlink(path)
        else:
            status = path.stat()
            content = path.read_bytes() if path.is_file() else None
            files[name] = (content, status.st_mode, status.st_mtime_ns)
    return files


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with all that a folder can have."""
    folder = tmp_path / "a project"
    (folder / "empty").mkdir(parents=True)
    for name in ("-rf $(x) '\"; ~", "naïve 日本.npy", "tab\tand\nline", ".hidden", "x" * 200):
        (folder / name).write_text(name)
    os.mkdir(os.fsencode(folder) + b"/not-\xff-utf8")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("run.sh")
    (folder / "dangling").symlink_to("/no/such/place")
    (folder / "old").write_bytes(b"")
    os.utime(folder / "old", ns=(10**18 + 7, 10**18 + 7))
    (folder / "closed").mkdir()
    (folder / "closed" / "file").write_text("x")
    (folder / "closed").chmod(0o555)
    return folder


def test_a_folder_arrives_with_names_links_modes_and_times(project, tmp_path):
    result = copy(project, to=tmp_path / "copy")
    assert tree(tmp_path / "copy") == tree(project)
    assert (result["files"], result["problems"]) == (8, [])
    # As with cp: into a folder that exists.
    (tmp_path / "into").mkdir()
    copy(project, project / "run.sh", to=f"{tmp_path}/into/")
    assert tree(tmp_path / "into" / "a project") == tree(project)
    assert sorted(os.listdir(tmp_path / "into")) == ["a project", "run.sh"]


def test_what_is_there_is_not_sent_again_and_nothing_is_overwritten_unasked(project, tmp_path):
    (tmp_path / "to").mkdir()
    copy(project, to=tmp_path / "to")
    (project / "new").write_text("new")
    again = copy(project, to=tmp_path / "to")
    assert (again["files"], again["unchanged"]) == (1, 10)

    there = tmp_path / "to" / "a project"
    (there / "run.sh").write_text("mine")
    (there / "own").write_text("mine")
    (project / "newer").write_text("not sent either")
    before = tree(there)
    with pytest.raises(TransferFailure) as refused:
        copy(project, to=tmp_path / "to")
    assert (refused.value.code, refused.value.names) == ("EXISTS", [f"{there}/run.sh"])
    assert tree(there) == before

    assert copy(project, to=tmp_path / "to", overwrite=True)["files"] == 2
    assert (there / "own").read_text() == "mine"
    (there / "own").unlink()
    project.chmod(0o755)
    assert tree(there) == tree(project)


def test_a_cut_copy_goes_on_where_it_was(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir()
    for name in "abc":
        (folder / name).write_bytes(os.urandom(3 * MIB))
    with pytest.raises(TransferFailure) as cut:
        copy(folder, to=tmp_path / "copy", cut=5 * MIB)
    assert cut.value.code == "LOST"
    assert not (tmp_path / "copy").exists()  # a new folder is there when it is whole
    result = copy(folder, to=tmp_path / "copy")
    assert (result["unchanged"], result["problems"]) == (1, [])
    assert 0 < result["resumed"] <= 2 * MIB
    assert tree(tmp_path / "copy") == tree(folder)
    assert sorted(os.listdir(tmp_path)) == ["copy", "data"]


def test_a_kept_beginning_that_is_wrong_is_sent_again(tmp_path):
    source = tmp_path / "source"
    source.write_bytes(os.urandom(3 * MIB))
    (tmp_path / "to").mkdir()
    with pytest.raises(TransferFailure):
        copy(source, to=tmp_path / "to", cut=2 * MIB)
    (part,) = (tmp_path / "to").iterdir()
    with part.open("r+b") as file:
        file.write(b"wrong")
    assert copy(source, to=tmp_path / "to")["resumed"] > 0
    assert (tmp_path / "to" / "source").read_bytes() == source.read_bytes()
    assert os.listdir(tmp_path / "to") == ["source"]


def test_a_new_folder_has_nothing_of_an_earlier_copy(tmp_path):
    folder = tmp_path / "data"
    (folder / "sub").mkdir(parents=True)
    for name in ("a", "sub/b", "z"):
        (folder / name).write_bytes(os.urandom(2 * MIB))
    with pytest.raises(TransferFailure):
        copy(folder, to=tmp_path / "copy", cut=5 * MIB)
    (folder / "a").write_bytes(b"changed")
    (folder / "sub" / "b").unlink()
    (folder / "sub").rmdir()
    copy(folder, to=tmp_path / "copy")
    assert tree(tmp_path / "copy") == tree(folder)


def test_files_that_cannot_be_copied_are_named_and_the_others_arrive(tmp_path, monkeypatch):
    folder = tmp_path / "data"
    folder.mkdir()
    for name in ("gone", "rewritten", "fine"):
        (folder / name).write_bytes(b"1" * MIB)
    os.mkfifo(folder / "pipe")

    def meanwhile(peer: Any, listing: Any, number: int, *more: Any) -> None:
        if listing.entries[number].path == "gone":
            (folder / "gone").unlink()
        if listing.entries[number].path == "rewritten":
            (folder / "rewritten").write_bytes(b"2" * MIB)
        send_file(peer, listing, number, *more)

    monkeypatch.setattr(sender, "send_file", meanwhile)
    result = copy(folder, to=tmp_path / "copy")
    problems = {os.path.basename(path): code for path, code, _ in result["problems"]}
    assert problems == {"pipe": "SPECIAL", "gone": "ENOENT", "rewritten": "CHANGED"}
    assert os.listdir(tmp_path / "copy") == ["fine"]


@pytest.mark.parametrize("chunks", [1, 3])
def test_a_file_that_two_copies_write_at_once_is_whole(tmp_path, chunks):
    """The other copy begins anew, or goes on where this one is."""
    content = os.urandom(2 * MIB)
    (tmp_path / "file").write_bytes(content)
    inner: list[dict[str, Any]] = []

    def again() -> None:
        inner.append(copy(tmp_path / "file", to=tmp_path / "to"))

    outer = copy(tmp_path / "file", to=tmp_path / "to", meanwhile=again, after=chunks)
    assert [inner[0]["problems"], outer["problems"]] == [[], []]
    assert (tmp_path / "to").read_bytes() == content
    assert sorted(os.listdir(tmp_path)) == ["file", "to"]
    assert copy(tmp_path / "file", to=tmp_path / "to")["unchanged"] == 1


def test_a_copy_that_another_one_takes_over_says_so(tmp_path):
    (tmp_path / "file").write_bytes(b"1" * MIB)

    def begin_anew() -> None:
        """As a copy that begins now, and has written nothing yet."""
        (part,) = tmp_path.glob(".jupyter-tpu-*")
        part.unlink()
        part.touch()

    result = copy(tmp_path / "file", to=tmp_path / "to", meanwhile=begin_anew)
    assert [code for _, code, _ in result["problems"]] == ["BUSY"]
    assert (result["files"], (tmp_path / "to").exists()) == (0, False)


def test_of_two_copies_to_one_new_folder_one_arrives_and_the_other_says_that_it_did_not(tmp_path):
    there = tmp_path / "there"
    there.mkdir()
    for source, names in {"a": ("1", "2"), "b": ("2", "3")}.items():
        (tmp_path / source / "data").mkdir(parents=True)
        for name in names:
            (tmp_path / source / "data" / name).write_text(f"{source}{name}" * MIB)
    inner: list[dict[str, Any]] = []
    with pytest.raises(TransferFailure) as failed:
        copy(
            tmp_path / "a" / "data",
            to=there,
            meanwhile=lambda: inner.append(copy(tmp_path / "b" / "data", to=there)),
        )
    assert failed.value.code == "BUSY"
    assert inner[0]["problems"] == []
    whole = {name for name in os.listdir(there / "data") if not name.startswith(".jupyter-tpu-")}
    assert whole == {"2", "3"}
    assert (there / "data" / "2").read_text() == "b2" * MIB
    result = copy(tmp_path / "a" / "data", to=there, overwrite=True)
    assert result["problems"] == []
    assert sorted(os.listdir(there / "data")) == ["1", "2", "3"]
    assert (there / "data" / "2").read_text() == "a2" * MIB


def test_a_file_that_grows_is_copied_as_it_was(tmp_path):
    log = tmp_path / "log"
    log.write_text("old")
    listing = Listing([os.fsencode(log)]).walk()
    log.write_text("old and new")
    told: list[dict[str, Any]] = []
    peer: Any = type("Peer", (), {"send": lambda self, content=b"", **more: told.append(more)})()
    send_file(peer, listing, 0, 0, lambda *_: None)
    assert told[1] == {"data": 3}
    assert "hash" in told[2]


@pytest.mark.parametrize(
    ("to", "code"),
    [("missing/", "ENOTDIR"), ("missing/deep/x", "ENOTDIR"), ("file", "IN_THE_WAY")],
)
def test_a_destination_that_cannot_be_one_is_refused(tmp_path, to, code):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_text("x")
    with pytest.raises(TransferFailure) as refused:
        copy(tmp_path / "folder", to=f"{tmp_path}/{to}")
    assert refused.value.code == code
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]


def hostile(entries: list[tuple[Any, ...]], to: Path, names: list[str] | None = None) -> str:
    """What a receiver says to a sender that lies."""
    one, other = socket.socketpair()
    with peer_over(one) as liar, peer_over(other) as peer:
        liar.send(entries=entries)
        liar.send(listed=len(entries), names=names or ["x"], problems=[], problem_count=0)
        liar.send(sent=True)
        liar.flush()
        one.shutdown(socket.SHUT_WR)
        try:
            Receiver(peer, str(to), True, lambda *_: None).receive()
        except TransferFailure as failure:
            return failure.code
    return ""


@pytest.mark.parametrize("path", ["../out", "/etc/out", "a/../../out", "a//b", ".", "a\0b"])
def test_no_path_leads_out_of_the_destination(tmp_path, path):
    (tmp_path / "to").mkdir()
    entries = [(0, "", "dir", 0o755, 0, 0, ""), (0, path, "file", 0o644, 0, 1, "")]
    assert hostile(entries, tmp_path / "to") == "PROTOCOL"
    assert os.listdir(tmp_path) == ["to"]
    assert os.listdir(tmp_path / "to") == []


@pytest.mark.parametrize("name", ["..", "a/../../out", ""])
def test_no_name_leads_out_of_the_destination(tmp_path, name):
    (tmp_path / "to").mkdir()
    entries = [(0, "", "dir", 0o755, 0, 0, "")]
    assert hostile(entries, tmp_path / "to", [name]) in ("PROTOCOL", "SAME_NAME")
    assert os.listdir(tmp_path) == ["to"]


def test_a_symbolic_link_in_the_destination_is_not_followed(tmp_path):
    (tmp_path / "to" / "x").mkdir(parents=True)
    (tmp_path / "outside").mkdir()
    (tmp_path / "to" / "x" / "sub").symlink_to(tmp_path / "outside")
    entries = [
        (0, "", "dir", 0o755, 0, 0, ""),
        (0, "sub/file", "file", 0o644, 0, 0, ""),
    ]
    assert hostile(entries, tmp_path / "to") != ""
    entries.insert(1, (0, "sub", "dir", 0o755, 0, 0, ""))
    assert hostile(entries, tmp_path / "to") == "IN_THE_WAY"
    entries[1] = (0, "sub", "link", 0o777, 0, 0, "/")
    assert hostile(entries, tmp_path / "to") != ""
    assert os.listdir(tmp_path / "outside") == []


@pytest.mark.parametrize("put", [os.symlink, os.rename])
def test_what_others_put_in_place_of_an_unfinished_folder_is_not_written_or_deleted(tmp_path, put):
    """The destination is shared: a neighbour has seen the name of a copy that was cut."""
    data, there, own = (tmp_path / name for name in ("data", "shared", "own"))
    data.mkdir()
    (data / "file").write_bytes(os.urandom(2 * MIB))
    there.mkdir()
    own.mkdir(0o700)
    (own / "data").mkdir()
    (own / "data" / "thesis").write_text("mine")
    mine = tree(own)
    with pytest.raises(TransferFailure):
        copy(data, to=f"{there}/", cut=MIB)
    (part,) = there.iterdir()
    part.rename(tmp_path / "taken")
    put(own, part)
    assert copy(data, to=f"{there}/")["problems"] == []
    assert tree(there / "data") == tree(data)
    assert tree(part) == mine
    assert sorted(os.listdir(there)) == sorted([part.name, "data"])


@pytest.mark.parametrize("put", [os.symlink, os.link])
def test_what_others_put_in_place_of_an_unfinished_file_is_not_written(tmp_path, put):
    source, there, own = tmp_path / "source", tmp_path / "shared", tmp_path / "own"
    source.write_bytes(os.urandom(3 * MIB))
    source.chmod(0o755)
    there.mkdir()
    own.write_bytes(source.read_bytes()[:MIB])
    own.chmod(0o600)
    with pytest.raises(TransferFailure):
        copy(source, to=f"{there}/", cut=2 * MIB)
    (part,) = there.iterdir()
    part.unlink()
    put(own, part)
    assert copy(source, to=f"{there}/")["resumed"] == 0
    assert (there / "source").read_bytes() == source.read_bytes()
    assert own.read_bytes() == source.read_bytes()[:MIB]
    assert own.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(there)) == ["source"]


def test_a_destination_that_becomes_a_link_meanwhile_is_not_followed(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "file").write_bytes(b"x" * MIB)
    there = tmp_path / "shared"
    (there / "data").mkdir(parents=True)
    (tmp_path / "own" / "data").mkdir(parents=True)

    def replace() -> None:
        there.rename(tmp_path / "moved")
        there.symlink_to(tmp_path / "own")

    copy(tmp_path / "data", to=f"{there}/", meanwhile=replace)
    assert os.listdir(tmp_path / "own" / "data") == []
    assert os.listdir(tmp_path / "moved" / "data") == ["file"]


def test_others_cannot_compute_the_name_of_an_unfinished_file(tmp_path, monkeypatch):
    names = []
    for user in ("a", "a", "b"):
        monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path / user))
        part_file._key.cache_clear()
        names.append(part_name(b"model", "7 1"))
    assert names[0] == names[1] != names[2]
    assert (tmp_path / "a" / "part-key").stat().st_mode & 0o777 == 0o600


def test_a_full_disk_is_known_before_the_first_byte(tmp_path):
    (tmp_path / "to").mkdir()
    assert hostile([(0, "", "file", 0o644, 0, 1 << 60, "")], tmp_path / "to") == "ENOSPC"
    assert os.listdir(tmp_path / "to") == []


def test_a_disk_that_fills_in_the_middle_keeps_nothing_of_the_file(tmp_path, monkeypatch):
    """A file-size limit stands for the disk: it fails in the same call."""
    source = tmp_path / "source"
    source.write_bytes(os.urandom(2 * MIB))
    (tmp_path / "to").mkdir()
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    monkeypatch.setattr(contents, "FULL", (errno.EFBIG,))
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, limits[1]))
    try:
        with pytest.raises(TransferFailure):
            copy(source, to=tmp_path / "to")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(tmp_path / "to") == []


def test_a_failure_names_the_folder_and_not_the_name_of_a_file_that_is_not_whole():
    place = b"/home/" + part_name(b"model", "what")
    refused = failure(PermissionError(errno.EACCES, "Permission denied"), place)
    assert (refused.path, refused.code) == ("/home", "EACCES")


def test_a_folder_that_cannot_be_written_to_is_named(tmp_path):
    """On a full or read-only disk, say; root may write everywhere else."""
    (tmp_path / "data").mkdir()
    with pytest.raises(TransferFailure) as refused:
        copy(tmp_path / "data", to="/proc/sys/")
    assert (refused.value.path, refused.value.code in ("EACCES", "EPERM", "ENOENT")) == (
        "/proc/sys",
        True,
    )


def test_a_missing_folder_is_created_only_if_that_is_wanted(tmp_path):
    file = tmp_path / "a"
    file.write_text("x")
    for there, arrives in (("new/folder/", "new/folder/a"), ("other/name", "other/name")):
        with pytest.raises(TransferFailure) as missing:
            copy(file, to=f"{tmp_path}/{there}")
        assert missing.value.code == "ENOTDIR"
        copy(file, to=f"{tmp_path}/{there}", make_folder=True)
        assert (tmp_path / arrives).read_text() == "x"
    copy(file, tmp_path / "other", to=tmp_path / "third", make_folder=True)
    assert (tmp_path / "third" / "other" / "name").read_text() == "x"
    with pytest.raises(TransferFailure) as blocked:
        copy(file, to=f"{file}/below/", make_folder=True)
    assert blocked.value.code == "ENOTDIR"

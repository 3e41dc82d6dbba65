"""Home folders in a bucket: what is saved of a host's home, and what another host gets of it."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_tpu.on_host.agent.daemon import homes
from jupyter_tpu.on_host.agent.home import state, transfer
from jupyter_tpu.on_host.agent.home.chosen import chosen_files
from jupyter_tpu.on_host.agent.protocol.records import HomeReport
from jupyter_tpu.on_host.agent.protocol.requests import AskHomeRequest
from jupyter_tpu.on_host.agent.session.storage import SessionError

KEY = "6b" * 32
PART = 1000


class Host:
    """A host with a home; *bucket* is a folder here."""

    def __init__(self, home: Path, bucket: Path, *folders: str, **setting: Any) -> None:
        home.mkdir(exist_ok=True)
        self.home = home
        self.setting: dict[str, Any] = {
            "place": str(bucket), "project": "p", "tpu": "my-tpu", "key": KEY, "limit": 10**9,
            "folders": list(folders) or [".bashrc", "checkpoints"], "about": {}, **setting,
        }  # fmt: skip
        self.moved: list[tuple[int, int]] = []

    def write(self, path: str, content: bytes | str, mode: int = 0o644, age: float = 3600) -> Path:
        file = self.home / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        file.chmod(mode)
        self.age(path, age)
        return file

    def age(self, path: str, seconds: float) -> None:
        then = os.stat(self.home).st_ctime - seconds
        os.utime(self.home / path, (then, then))

    @contextlib.contextmanager
    def _as_user(self):
        before = os.environ["HOME"]
        os.environ["HOME"] = str(self.home)
        try:
            yield
        finally:
            os.environ["HOME"] = before

    def save(self) -> dict[str, Any]:
        with self._as_user():
            return transfer.save(str(self.home), self.setting, self._note)

    def restore(self, *, again: bool = False) -> dict[str, Any]:
        with self._as_user():
            return transfer.restore(str(self.home), self.setting, self._note, again=again)

    def _note(self, done: int, total: int) -> None:
        self.moved.append((done, total))

    def files(self) -> dict[str, tuple[bytes, int]]:
        return {
            str(path.relative_to(self.home)): (path.read_bytes(), path.stat().st_mode & 0o777)
            for path in self.home.rglob("*")
            if path.is_file() and ".jupyter-tpu" not in path.parts
        }


@pytest.fixture(autouse=True, scope="module")
def small_parts() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(transfer, "PART_BYTES", PART)
        yield


def test_another_host_gets_files_modes_and_links_and_only_changes_are_sent(tmp_path: Path) -> None:
    first = Host(tmp_path / "first", tmp_path / "bucket")
    first.write(".bashrc", "export A=1\n", 0o600)
    first.write("checkpoints/1/weights", bytes(range(256)) * 20)
    first.write("checkpoints/run.sh", "#!/bin/sh\n", 0o755)
    first.write("other/file", "not chosen")
    (first.home / "checkpoints/latest").symlink_to(first.home / "checkpoints/1")
    (first.home / "checkpoints/1").chmod(0o750)
    saved = first.save()
    assert (saved["state"], saved["files"], saved["left_out"]) == ("saved", 4, [])
    assert first.moved[-1] == (saved["size"], saved["size"])
    assert first.save()["new"] == 0
    # One part of a large file, and nothing of what has only been touched.
    first.write("checkpoints/1/weights", bytes(range(256)) * 20 + b"more", age=60)
    first.age(".bashrc", 30)
    assert first.save()["new"] == 5120 % PART + 4

    second = Host(tmp_path / "second", tmp_path / "bucket")
    restored = second.restore()
    assert (restored["state"], restored["files"], restored["kept"]) == ("restored", 4, [])
    expected = first.files()
    del expected["other/file"]
    assert second.files() == expected
    assert (second.home / "checkpoints/latest/weights").stat().st_size == 5124
    assert os.readlink(second.home / "checkpoints/latest") == "1"
    assert (second.home / "checkpoints/1").stat().st_mode & 0o777 == 0o750
    weights = "checkpoints/1/weights"
    assert (second.home / weights).stat().st_mtime_ns == (first.home / weights).stat().st_mtime_ns
    assert second.restore()["state"] == "same"
    assert second.save()["new"] == 0


def test_keys_tokens_and_what_is_outside_of_the_home_are_left_out_and_named(tmp_path: Path) -> None:
    folders = [".ssh", ".config", "data", ".netrc"]
    host = Host(tmp_path / "home", tmp_path / "bucket", *folders)
    host.write(".ssh/id_work", "key")
    host.write(".ssh/config", "Host *\n", 0o600)
    host.write(".config/gcloud/credentials.db", "x")
    host.write(".config/tool/settings", "x")
    host.write(".netrc", "machine x password y")
    host.write("data/my.pem", "x")
    host.write("data/notes", "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n")
    host.write("data/.env/pyvenv.cfg", "x")
    (tmp_path / "outside").write_text("secret")
    (host.home / "data/out").symlink_to(tmp_path / "outside")
    os.mkfifo(host.home / "data/pipe")
    saved = host.save()
    assert dict(saved["left_out"]) == {
        ".ssh/id_work": "keys are not saved",
        ".config/gcloud": "it may have passwords or tokens",
        ".netrc": "it may have passwords or tokens",
        "data/my.pem": "by its name it may have passwords or tokens",
        "data/notes": "a private key",
        "data/.env": "a virtual environment",
        "data/out": "a link out of the home folder",
        "data/pipe": "not a file",
    }
    other = Host(tmp_path / "other", tmp_path / "bucket")
    other.restore()
    assert set(other.files()) == {".ssh/config", ".config/tool/settings"}
    stored = b"".join(path.read_bytes() for path in (tmp_path / "bucket").rglob("values/*"))
    assert b"PRIVATE" not in stored


def test_what_is_newer_stays_and_what_is_replaced_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Host(tmp_path / "first", tmp_path / "bucket", "a", "b", "c", "d", "e")
    for name in "abcde":
        first.write(name, "saved", age=1000)
    first.save()
    skeleton = tmp_path / "skel"
    skeleton.mkdir()
    (skeleton / "c").write_text("of every home")
    monkeypatch.setattr(transfer, "_SKELETON", str(skeleton))
    second = Host(tmp_path / "second", tmp_path / "bucket")
    second.write("a", "newer here", age=10)
    second.write("b", "older here", age=5000)
    second.write("c", "of every home", age=0)
    second.write("d", "saved", age=0)
    (tmp_path / "elsewhere").write_text("mine")
    (second.home / "e").symlink_to(tmp_path / "elsewhere")
    restored = second.restore()
    assert (restored["kept"], restored["replaced"]) == (["a", "e"], ["b"])
    assert {name: (second.home / name).read_text() for name in "abcd"} == {
        "a": "newer here", "b": "saved", "c": "saved", "d": "saved",
    }  # fmt: skip
    assert (tmp_path / "elsewhere").read_text() == "mine"


def test_a_limit_takes_small_files_first_and_then_the_latest(tmp_path: Path) -> None:
    host = Host(tmp_path / "home", tmp_path / "bucket", limit=3_000_000)
    host.write("checkpoints/1", bytes(2_000_000), age=2000)
    host.write("checkpoints/2", bytes(2_000_000), age=1000)
    host.write(".bashrc", "small", age=9000)
    saved = host.save()
    assert saved["left_out"] == [("checkpoints/1", "over the limit of 3 MB")]
    assert saved["files"] == 2


def test_a_host_that_does_not_have_the_copy_does_not_replace_it(tmp_path: Path) -> None:
    first = Host(tmp_path / "first", tmp_path / "bucket")
    first.write(".bashrc", "first")
    first.save()
    second = Host(tmp_path / "second", tmp_path / "bucket")
    second.write(".bashrc", "second", age=5000)
    with pytest.raises(SessionError, match="has home folders of my-tpu that this TPU does not"):
        second.save()
    second.restore()
    second.write(".bashrc", "second", age=10)
    second.save()
    with pytest.raises(SessionError, match="that this TPU does not have"):
        first.save()
    stranger = Host(tmp_path / "third", tmp_path / "bucket", key="00" * 32)
    for act in (stranger.save, stranger.restore):
        with pytest.raises(SessionError, match="signed with another key"):
            act()


class Killed(BaseException):
    """The process ends here."""


@given(st.integers(0, 12), st.booleans())
def test_a_copy_is_one_that_existed_whenever_a_process_ends(
    tmp_path_factory: pytest.TempPathFactory, step: int, restores: bool
) -> None:
    folder = tmp_path_factory.mktemp("home")
    first = Host(folder / "first", folder / "bucket")
    names = ("checkpoints/a", "checkpoints/b", ".bashrc")
    for name in names:
        first.write(name, b"0" * 2500)
    first.save()
    acting = Host(folder / "second", folder / "bucket") if restores else first
    if not restores:
        for name in names:
            first.write(name, b"1" * 2500, age=60)
    left = step

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return function(*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        make = transfer.HomeStorage

        def storage(*arguments: Any) -> Any:
            made = make(*arguments)
            store = made._store
            kinds = ("read", "write", "list", "delete_range")
            made._store = SimpleNamespace(**{kind: counted(getattr(store, kind)) for kind in kinds})
            return made

        patch.setattr(transfer, "HomeStorage", storage)
        patch.setattr(state, "note_copies", counted(state.note_copies))
        patch.setattr(os, "replace", counted(os.replace))
        with contextlib.suppress(Killed):
            acting.restore() if restores else acting.save()
    third = Host(folder / "third", folder / "bucket")
    third.restore()
    contents = {content for content, _ in third.files().values()}
    assert len(third.files()) == 3
    assert contents in ({b"0" * 2500}, {b"1" * 2500})
    # What was killed goes on.
    acting.restore()
    acting.save()
    assert acting.save()["new"] == 0
    parts = list((folder / "bucket").rglob("values/*"))
    assert len(parts) == 2


def test_what_changes_while_it_is_read_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = Host(tmp_path / "home", tmp_path / "bucket")
    file = host.write("checkpoints/log", b"1" * 1500)
    host.save()
    host.write("checkpoints/log", b"2" * 1500, age=5)
    parts = transfer._parts

    def growing(source: Any) -> Any:
        for part in parts(source):
            with open(file, "ab") as more:
                more.write(b"3")
            yield part

    monkeypatch.setattr(transfer, "_parts", growing)
    assert host.save()["left_out"] == [("checkpoints/log", "it was changed while it was read")]
    monkeypatch.setattr(transfer, "_parts", parts)
    other = Host(tmp_path / "other", tmp_path / "bucket")
    other.restore()
    assert other.files() == {"checkpoints/log": (b"1" * 1500, 0o644)}


def test_a_change_of_a_name_a_time_or_a_mode_is_seen(tmp_path: Path) -> None:
    host = Host(tmp_path / "home", tmp_path / "bucket")
    host.write("checkpoints/a", "1")
    seen = {chosen_files(str(host.home), ["checkpoints"]).digest()}
    for change in (
        lambda: host.age("checkpoints/a", 5),
        lambda: (host.home / "checkpoints/a").chmod(0o600),
        lambda: (host.home / "checkpoints/a").rename(host.home / "checkpoints/b"),
    ):
        change()
        digest = chosen_files(str(host.home), ["checkpoints"]).digest()
        assert digest not in seen
        seen.add(digest)


def test_a_program_that_stands_still_is_ended_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bucket that never answers must not end all saves of the host."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(homes, "STALLED_SECONDS", 0.3)
    python, pid = tmp_path / "python", tmp_path / "pid"
    python.write_text(f"#!/bin/sh\necho $$ >{pid}\nexec sleep 600\n")
    python.chmod(0o755)

    async def saved() -> HomeReport:
        folders = homes.HomeFolders("sources", lambda: None)
        setting: Any = {"python": str(python)}
        await folders._ask(AskHomeRequest(do="save", id="mine", setting=setting))
        await folders._ended()
        report = folders.report()
        assert report is not None
        return report

    outcome = asyncio.run(saved())["outcome"]
    assert outcome is not None
    assert (outcome["state"], "stood still" in outcome["why"]) == ("failed", True)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)

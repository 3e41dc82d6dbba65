"""A project folder and hosts, whose program runs here under other home folders."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from project_host import ProjectHost
from refusals import raises
from waiting import eventually

from jupyter_tpu.errors import ConnectionLost, Reason, TPUError
from jupyter_tpu.files.sync import (
    Bases,
    HostOutcome,
    LocalProject,
    SyncOptions,
    SyncOutcome,
    pull,
    push,
)
from jupyter_tpu.files.sync.remote import RemoteProject
from jupyter_tpu.on_host.files import changes
from jupyter_tpu.on_host.files.tree import hash_file

MIB = 1 << 20


class Progress:
    """What a sync reports to, and the parts and lines that it reported."""

    def __init__(self) -> None:
        self.parts: list[float] = []
        self.lines: list[str] = []

    def part(self, key: str, part: float) -> None:
        self.parts.append(part)

    def log(self, line: str) -> None:
        self.lines.append(line)

    def begin(self, *_: Any) -> None: ...

    host_done = done = begin


class Syncs:
    """A project and its hosts, whose folder for it is `there(host)`."""

    def __init__(self, folder: Path, hosts: int) -> None:
        self.here = folder / "project"
        self.here.mkdir()
        self.hosts = [ProjectHost(folder / f"host-{index}", index) for index in range(hosts)]
        self.progress = Progress()
        self._bases = Bases(folder / "bases")

    def there(self, host: int = 0) -> Path:
        return self.hosts[host].home / "work"

    def _local(self, limits: Any) -> LocalProject:
        return LocalProject(self.here, self._bases, limits)

    async def push(
        self, limits: tuple[int, int, int] = (MIB * 100, MIB * 100, 1000), **options: Any
    ) -> SyncOutcome:
        return await push(
            self.hosts,
            self._local(limits),
            "~/work",
            self._bases,
            lambda worker: (str(worker),),
            SyncOptions(**options),
            self.progress,
        )

    async def pull(
        self, host: int = 0, limits: tuple[int, int, int] = (MIB, MIB, 1000), **options: Any
    ) -> HostOutcome:
        outcome = await pull(
            self.hosts[host],
            self._local(limits),
            "~/work",
            self._bases,
            (str(host),),
            SyncOptions(**options),
            self.progress,
        )
        return outcome.hosts[0]


@pytest.fixture
def syncs(tmp_path: Path) -> Syncs:
    return Syncs(tmp_path, 1)


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text)


def content(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


async def test_a_folder_goes_to_all_hosts_with_links_modes_and_strange_names(tmp_path):
    syncs = Syncs(tmp_path, 2)
    write(syncs.here, **{"a b.py": "1", "quo'te\n$(x)": "2", "ü": "3"})
    write(syncs.here / "deep" / "er", tool="#!/bin/sh\n")
    (syncs.here / "deep" / "er" / "tool").chmod(0o755)
    (syncs.here / "link").symlink_to("deep/er/tool")
    outcome = await syncs.push()
    assert [host.problem for host in outcome.hosts] == [None, None]
    for host in (0, 1):
        assert content(syncs.there(host)) == content(syncs.here)
        assert os.readlink(syncs.there(host) / "link") == "deep/er/tool"
        assert os.access(syncs.there(host) / "deep/er/tool", os.X_OK)
        assert not os.access(syncs.there(host) / "ü", os.X_OK)
    (syncs.here / "ü").chmod(0o755)
    outcome = await syncs.push()
    assert [host.written for host in outcome.hosts] == [["ü"], ["ü"]]
    assert os.access(syncs.there(1) / "ü", os.X_OK)


async def test_only_what_changed_crosses_the_line_and_of_a_large_file_only_the_changed_part(syncs):
    large = os.urandom(4 * MIB)
    (syncs.here / "large").write_bytes(large)
    write(syncs.here, small="1")
    first = (await syncs.push()).hosts[0]
    assert first.transferred > 4 * MIB
    idle = (await syncs.push()).hosts[0]
    assert (idle.written, idle.transferred < 40_000) == ([], True)
    write(syncs.here, small="2")
    (syncs.here / "large").write_bytes(b"inserted" + large)
    outcome = (await syncs.push()).hosts[0]
    assert "large" in outcome.written
    assert (syncs.there() / "large").read_bytes() == b"inserted" + large
    assert outcome.transferred < 300_000
    assert (syncs.there() / "small").read_text() == "2"


async def test_a_file_that_was_changed_on_both_sides_stays_until_somebody_decides(syncs):
    write(syncs.here, both="1", mine="1", theirs="1", gone="1")
    await syncs.push()
    write(syncs.here, both="here", mine="here")
    write(syncs.there(), both="there", theirs="there", gone="there", result="there")
    (syncs.here / "gone").unlink()
    outcome = (await syncs.push()).hosts[0]
    assert outcome.written == ["mine"]
    assert [(conflict.path, conflict.kind) for conflict, _, _ in outcome.conflicts] == [
        ("both", "changed"),
        ("gone", "deleted"),
    ]
    _, here, there = outcome.conflicts[0]
    assert here.time == (syncs.here / "both").stat().st_mtime
    assert there.time == (syncs.there() / "both").stat().st_mtime
    assert outcome.newer == ["theirs"]
    assert content(syncs.there())["both"] == "there"
    fetched = await syncs.pull()
    assert sorted(fetched.written) == ["gone", "result", "theirs"]
    assert content(syncs.here)["both"] == "here"
    assert (await syncs.push(overwrite=True, only=("both",))).hosts[0].written == ["both"]
    assert content(syncs.there()) == content(syncs.here)


async def test_files_that_differ_and_never_were_the_same_are_conflicts(syncs):
    write(syncs.here, a="here", same="1")
    write(syncs.there(), a="there", same="1")
    outcome = (await syncs.push()).hosts[0]
    assert [conflict.kind for conflict, _, _ in outcome.conflicts] == ["different"]
    assert outcome.written == []
    assert content(syncs.there())["a"] == "there"
    write(syncs.here, same="2")
    assert (await syncs.push()).hosts[0].written == ["same"]


async def test_what_was_deleted_here_is_deleted_there_but_not_because_nothing_is_left_here(syncs):
    write(syncs.here / "sub", a="1")
    write(syncs.here, b="1")
    await syncs.push()
    (syncs.here / "sub/a").unlink()
    assert (await syncs.push()).hosts[0].deleted == ["sub/a"]
    assert not (syncs.there() / "sub").exists()
    (syncs.here / "b").unlink()
    assert (await syncs.push()).hosts[0].deleted == []
    assert content(syncs.there()) == {"b": "1"}
    assert (await syncs.push(delete=True)).hosts[0].deleted == ["b"]


async def test_a_pull_deletes_only_on_request_and_never_what_is_only_here(syncs):
    write(syncs.here, a="1")
    await syncs.push()
    write(syncs.here, own="1")
    (syncs.there() / "a").unlink()
    assert (await syncs.pull()).deleted == []
    assert (await syncs.pull(delete=True)).deleted == ["a"]
    assert content(syncs.here) == {"own": "1"}


async def test_ignored_files_stay_where_they_are_on_both_sides(syncs):
    write(syncs.here, **{".gitignore": "*.log\n!keep.log\nruns/\n", "x.log": "1", "keep.log": "1"})
    write(syncs.here / "sub", **{".gitignore": "/data\n", "data": "1", "code": "1"})
    write(syncs.here / "runs", r="1")
    write(syncs.here / ".git", HEAD="1")
    write(syncs.here / "env", **{"pyvenv.cfg": ""})
    outcome = await syncs.push()
    kept = {".gitignore", "keep.log", "sub/.gitignore", "sub/code"}
    assert set(content(syncs.there())) == kept
    assert [[path, why] for path, _, why in outcome.skipped] == [["env/", "a virtual environment"]]
    write(syncs.there() / "runs", results="1")
    write(syncs.there() / ".git", config="1")
    assert (await syncs.pull()).written == []
    write(syncs.here, **{".gitignore": "*.log\n*.py\n"})
    write(syncs.here, **{"now.py": "1"})
    (syncs.here / ".gitignore").write_text("sub/\n")
    # What is ignored from now on was not deleted here.
    assert (await syncs.push()).hosts[0].deleted == []
    assert (syncs.there() / "sub/code").exists()


async def test_what_can_not_be_copied_is_listed_with_the_reason(syncs, tmp_path):
    (syncs.here / "out").symlink_to(tmp_path)
    os.mkfifo(syncs.here / "pipe")
    write(syncs.here, **{"50-GB": ""})
    os.truncate(syncs.here / "50-GB", 50_000 * MIB)
    write(syncs.here, a="1")
    outcome = await syncs.push()
    assert sorted((path, why) for path, _, why in outcome.skipped) == [
        ("50-GB", "larger than the limit"),
        ("out", "a link out of the folder"),
        ("pipe", "not a file"),
    ]
    assert outcome.hosts[0].written == ["a"]


async def test_a_folder_beyond_the_limits_is_refused_and_its_largest_parts_are_named(syncs):
    write(syncs.here / "data", a="x" * 5000)
    write(syncs.here, b="x" * 100)
    with raises(Reason.INVALID, r"data \(5 kB\)"):
        await syncs.push(limits=(MIB, 4000, 1000))
    with pytest.raises(TPUError, match="more than 1 files"):
        await syncs.push(limits=(MIB, MIB, 1))


async def test_results_come_back_to_a_folder_that_is_larger_than_the_limits(syncs):
    write(syncs.here, data="x" * 5000)
    write(syncs.there(), result="1")
    assert (await syncs.pull(limits=(MIB, 4000, 1000))).written == ["result"]


async def test_nothing_is_written_through_links_of_the_host(syncs, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere, a="there")
    syncs.there().mkdir()
    (syncs.there() / "sub").symlink_to(elsewhere)
    write(syncs.here / "sub", a="here", b="here")
    outcome = (await syncs.push(overwrite=True)).hosts[0]
    assert {path for path, _ in outcome.refused} == {"sub/a", "sub/b"}
    assert content(elsewhere) == {"a": "there"}


async def test_a_target_that_changes_after_the_comparison_is_not_overwritten(syncs, monkeypatch):
    write(syncs.here, a="1", b="1")
    await syncs.push()
    write(syncs.here, a="2", b="2")
    signatures = "jupyter_tpu.files.sync.remote.RemoteProject.signatures"

    async def meanwhile(*_: Any) -> dict:
        write(syncs.there(), a="there")
        return {}

    monkeypatch.setattr(signatures, meanwhile)
    outcome = (await syncs.push()).hosts[0]
    assert outcome.refused == [("a", "it has changed in the meantime")]
    assert content(syncs.there()) == {"a": "there", "b": "2"}


async def test_a_file_that_changes_while_it_is_sent_does_not_arrive_by_half(syncs, monkeypatch):
    write(syncs.here, a="1", b="1")
    before = changes.send_contents

    def meanwhile(*arguments: Any) -> None:
        write(syncs.here, a="22")
        before(*arguments)

    monkeypatch.setattr("jupyter_tpu.files.sync.remote.send_contents", meanwhile)
    outcome = (await syncs.push()).hosts[0]
    assert outcome.refused == [("a", "it was changed while it was sent")]
    assert content(syncs.there()) == {"b": "1"}
    monkeypatch.undo()
    assert (await syncs.push()).hosts[0].written == ["a"]


async def test_a_line_that_breaks_in_the_middle_costs_only_that_host_and_what_was_missing(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("jupyter_tpu.files.sync.sync.RELAY_FROM", 1 << 40)
    syncs = Syncs(tmp_path, 2)
    for index in range(8):
        (syncs.here / f"f{index}").write_bytes(os.urandom(MIB // 2))
    syncs.hosts[1].breaks_after = 2 * MIB
    outcome = await syncs.push()
    good, bad = outcome.hosts
    assert good.problem is None
    assert len(good.written) == 8
    assert bad.problem.reason is Reason.UNREACHABLE
    assert not [name for name in os.listdir(syncs.there(1)) if name.startswith(".")]
    there = len(os.listdir(syncs.there(1)))
    assert 0 < there < 8
    syncs.hosts[1].breaks_after = None
    outcome = await syncs.push()
    assert len(outcome.hosts[1].written) == 8 - there
    assert outcome.hosts[0].written == []
    assert max(syncs.progress.parts) == 1


async def test_names_that_differ_by_case_are_two_files_and_a_rename_of_case_is_one(syncs):
    write(syncs.here, Model="1", model="2")
    await syncs.push()
    assert content(syncs.there()) == {"Model": "1", "model": "2"}
    (syncs.here / "model").unlink()
    (syncs.here / "Model").rename(syncs.here / "MODEL")
    outcome = (await syncs.push()).hosts[0]
    assert (outcome.conflicts, outcome.refused) == ([], [])
    assert content(syncs.there()) == {"MODEL": "1"}


@pytest.mark.parametrize("hours", [-30, 30])
async def test_clocks_that_differ_change_nothing(syncs, monkeypatch, hours):
    shift = f"import time\nreal = time.time\ntime.time = lambda: real() + {hours} * 3600\n"
    with_fault(monkeypatch, shift)
    write(syncs.here, a="1", b="1", c="1")
    await syncs.push()
    for name in "abc":  # as the host's clock dates them
        at = (syncs.there() / name).stat().st_mtime + hours * 3600
        os.utime(syncs.there() / name, (at, at))
    assert (await syncs.push()).hosts[0].written == []
    write(syncs.here, a="2", b="2")
    write(syncs.there(), b="3", c="3")
    outcome = (await syncs.push()).hosts[0]
    assert outcome.written == ["a"]
    assert [conflict.path for conflict, *_ in outcome.conflicts] == ["b"]
    assert outcome.newer == ["c"]
    assert content(syncs.there()) == {"a": "2", "b": "3", "c": "3"}


async def test_a_full_disk_says_so_and_what_was_whole_before_it_stays(syncs, monkeypatch):
    write(syncs.here, a="1", b="x" * 300_000, c="1")
    # A file that the host can't write in full: as root no quota is nearer than this.
    full = (
        "import errno, os\n"
        "real = os.fchmod\n"
        "def fchmod(file, mode):\n"
        "    if os.fstat(file).st_size > 200000:\n"
        "        raise OSError(errno.ENOSPC, 'No space left on device')\n"
        "    real(file, mode)\n"
        "os.fchmod = fchmod\n"
    )
    with_fault(monkeypatch, full)
    outcome = (await syncs.push()).hosts[0]
    assert outcome.problem.reason is Reason.DISK_FULL
    assert content(syncs.there()) == {"a": "1"}
    monkeypatch.undo()
    outcome = (await syncs.push()).hosts[0]
    assert outcome.written == ["b", "c"]


def with_fault(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """The host's program begins with *code*."""
    import json
    import zlib

    from jupyter_tpu.files.sync import remote

    def faulty(main: str) -> bytes:
        first, *others = json.loads(zlib.decompress(real(main).partition(b"\n")[2])).items()
        sources = dict([(first[0], code + first[1]), *others])
        packed = zlib.compress(json.dumps(sources).encode())
        return b"%d\n%b" % (len(packed), packed)

    real = remote.program
    monkeypatch.setattr(remote, "program", faulty)


async def test_hosts_get_large_changes_from_each_other_and_the_line_carries_them_once(
    tmp_path, monkeypatch
):
    syncs = Syncs(tmp_path, 4)

    async def push() -> list[HostOutcome]:
        (syncs.here / "data").write_bytes(os.urandom(3 * MIB))
        outcomes = (await syncs.push()).hosts
        for outcome in outcomes:
            if outcome.problem is None:
                there = syncs.there(outcome.host) / "data"
                assert hash_file(str(there)) == hash_file(str(syncs.here / "data"))
            assert [*(syncs.hosts[outcome.host].home / ".jupyter-tpu/sync").glob("*.list")] == []
        return outcomes

    receive, look_up = RemoteProject.receive, RemoteProject.look_up
    whole = 1  # lines that do not break before one does
    busy = True

    async def receiving(remote: RemoteProject, *arguments: Any) -> Any:
        nonlocal whole
        whole -= 1
        if whole == -1:
            raise ConnectionLost("my-tpu")
        return await receive(remote, *arguments)

    async def looking_up(remote: RemoteProject, *arguments: Any) -> Any:
        """Host 3 is busy: it is asked when all others have the files."""
        if remote._where == "host 3" and busy:
            await eventually(
                lambda: all((syncs.there(host) / "data").exists() for host in range(3))
            )
        return await look_up(remote, *arguments)

    monkeypatch.setattr(RemoteProject, "receive", receiving)
    monkeypatch.setattr(RemoteProject, "look_up", looking_up)
    outcomes = await push()
    assert [outcome.problem for outcome in outcomes] == [None] * 4
    assert sum(outcome.transferred for outcome in outcomes) < 3.5 * MIB

    # The line to the one that gets them from here breaks: another one takes its place.
    busy = False
    outcomes = await push()
    assert sum(outcome.problem is None for outcome in outcomes) == 3
    assert sum(outcome.transferred for outcome in outcomes) < 3.5 * MIB
    assert syncs.progress.lines == []

    # Hosts that do not reach each other get all from here, and the log says why.
    fails = ["sh", "-c", "echo 'Connection refused' >&2; exit 1"]
    monkeypatch.setattr(ProjectHost, "pod_command", lambda host, argv: fails)
    outcomes = await push()
    assert [outcome.problem for outcome in outcomes] == [None] * 4
    assert len(syncs.progress.lines) == 2  # one host has other files than these two
    assert syncs.progress.lines[0].endswith(
        " (Connection refused). It gets them from this computer."
    )
    assert min(outcome.transferred for outcome in outcomes) > 3 * MIB


async def test_what_another_process_of_this_computer_copied_is_no_change_on_the_host(
    syncs, monkeypatch
):
    """Two programs run notebooks in one folder, and write their logs there."""
    write(syncs.here, log="1")
    await syncs.push()
    receive, load = RemoteProject.receive, Bases.load
    loads = 0

    def counting(bases: Bases, *arguments: Any) -> Any:
        nonlocal loads
        loads += 1
        return load(bases, *arguments)

    async def slow(remote: RemoteProject, *arguments: Any) -> Any:
        """While the first one copies, the second one begins, and the file changes."""
        nonlocal second, loads
        if second is None:
            write(syncs.here, log="123", new="2")
            loads = 0
            second = asyncio.create_task(syncs.push())
            await eventually(lambda: loads > 0 and syncs.hosts[0].conversations == 3)
        return await receive(remote, *arguments)

    second: asyncio.Task[SyncOutcome] | None = None
    monkeypatch.setattr(Bases, "load", counting)
    monkeypatch.setattr(RemoteProject, "receive", slow)
    write(syncs.here, log="12")
    first = (await syncs.push()).hosts[0]
    assert second is not None
    for outcome in (first, (await second).hosts[0]):
        assert (outcome.problem, outcome.conflicts) == (None, [])
    assert (await syncs.push()).hosts[0].conflicts == []
    assert (syncs.there() / "log").read_text() == "123"
    assert (syncs.there() / "new").read_text() == "2"


async def test_what_a_process_copied_that_was_killed_is_no_change_on_the_host(syncs, monkeypatch):
    write(syncs.here, log="1")
    await syncs.push()
    receive = RemoteProject.receive

    async def killed(remote: RemoteProject, *arguments: Any) -> Any:
        await receive(remote, *arguments)
        raise ConnectionLost("my-tpu")  # nothing that came after it was done

    with monkeypatch.context() as patch:
        patch.setattr(RemoteProject, "receive", killed)
        write(syncs.here, log="12")
        assert (await syncs.push()).hosts[0].problem is not None
    assert (syncs.there() / "log").read_text() == "12"
    write(syncs.here, log="123")
    assert (await syncs.push()).hosts[0].conflicts == []
    assert (syncs.there() / "log").read_text() == "123"
    # What a program there writes is one.
    write(syncs.there(), log="its own")
    write(syncs.here, log="1234")
    assert len((await syncs.push()).hosts[0].conflicts) == 1


async def test_an_absolute_link_into_the_project_leads_to_the_same_file_there(syncs):
    write(syncs.here / "data", a="1", b="2")
    link, there = syncs.here / "deep" / "link", syncs.there() / "deep" / "link"
    link.parent.mkdir()
    for name in ("a", "b"):
        link.unlink(missing_ok=True)
        link.symlink_to(syncs.here / "data" / name)
        outcome = await syncs.push()
        assert (outcome.skipped, outcome.hosts[0].refused) == ([], [])
        assert os.readlink(there) == f"../data/{name}"
    # Also one that the host has made absolute: it is the same.
    there.unlink()
    there.symlink_to(syncs.there() / "data" / "b")
    assert (await syncs.push()).hosts[0].written == []
    link.unlink()
    assert (await syncs.push()).hosts[0].deleted == ["deep/link"]
    assert not there.is_symlink()

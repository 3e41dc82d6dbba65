"""Large files of a sync: continued after a cut, and passed on from host to host."""

import os
from pathlib import Path
from typing import Any

import pytest
from project_host import ProjectHost
from test_sync_hosts import MIB, Syncs, write
from waiting import eventually

from jupyter_tpu.errors import Reason
from jupyter_tpu.files.sync import sync
from jupyter_tpu.files.sync.remote import RemoteProject


@pytest.fixture
def syncs(tmp_path: Path) -> Syncs:
    return Syncs(tmp_path, 1)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What hosts have answered: a round trip each."""
    kinds: list[object] = []
    answer = RemoteProject._answer

    async def counting(remote: RemoteProject, kind: Any) -> Any:
        kinds.append(kind)
        return await answer(remote, kind)

    monkeypatch.setattr(RemoteProject, "_answer", counting)
    return kinds


def parts(folder: Path) -> list[Path]:
    return [*folder.glob(".jupyter-tpu-*")]


async def cut(syncs: Syncs, after: int) -> None:
    """A push whose line breaks."""
    syncs.hosts[0].breaks_after = after
    problem = (await syncs.push()).hosts[0].problem
    assert problem.reason is Reason.UNREACHABLE
    syncs.hosts[0].breaks_after = None


async def test_a_large_file_goes_on_where_the_line_was_cut(syncs, answers):
    large = os.urandom(6 * MIB)
    (syncs.here / "large").write_bytes(large)
    write(syncs.here, small="1")
    await cut(syncs, 5 * MIB)
    assert len(parts(syncs.there())) == 1
    answers.clear()
    outcome = (await syncs.push()).hosts[0]
    assert outcome.written == ["large", "small"]
    assert outcome.transferred < 3 * MIB
    assert (syncs.there() / "large").read_bytes() == large
    assert parts(syncs.there()) == []
    assert len(answers) == 2


async def test_a_kept_beginning_that_is_wrong_is_sent_again(syncs):
    (syncs.here / "large").write_bytes(os.urandom(6 * MIB))
    await cut(syncs, 5 * MIB)
    (part,) = parts(syncs.there())
    with part.open("r+b") as file:
        file.write(b"wrong")
    outcome = (await syncs.push()).hosts[0]
    assert (outcome.problem, outcome.written, outcome.refused) == (None, ["large"], [])
    assert (syncs.there() / "large").read_bytes() == (syncs.here / "large").read_bytes()


async def test_the_beginning_of_another_version_is_not_kept(syncs):
    (syncs.here / "large").write_bytes(os.urandom(6 * MIB))
    await cut(syncs, 5 * MIB)
    (syncs.here / "large").write_bytes(os.urandom(3 * MIB))
    assert (await syncs.push()).hosts[0].written == ["large"]
    assert parts(syncs.there()) == []


@pytest.mark.parametrize("changed", [False, True])
async def test_a_fetched_file_goes_on_where_the_line_was_cut_if_it_is_the_same(
    syncs, monkeypatch, changed
):
    large = os.urandom(6 * MIB)
    syncs.there().mkdir()
    (syncs.there() / "large").write_bytes(large)
    limits = (100 * MIB, 100 * MIB, 100)
    read = RemoteProject.read

    async def breaking(remote: RemoteProject) -> bytes:
        return b"" if remote.received > 4 * MIB else await read(remote)

    monkeypatch.setattr(RemoteProject, "read", breaking)
    problem = (await syncs.pull(limits=limits)).problem
    assert problem.reason is Reason.INTERRUPTED
    assert len(parts(syncs.here)) == 1
    monkeypatch.undo()
    if changed:
        large = os.urandom(3 * MIB)
        (syncs.there() / "large").write_bytes(large)
    outcome = await syncs.pull(limits=limits)
    assert outcome.written == ["large"]
    assert changed or outcome.transferred < 3 * MIB
    assert (syncs.here / "large").read_bytes() == large
    assert parts(syncs.here) == []


async def test_a_sync_has_one_round_trip_and_one_more_for_what_is_sent(syncs, answers):
    (syncs.here / "large").write_bytes(os.urandom(2 * MIB))
    write(syncs.here, a="1", b="1")
    for text, trips in (("1", 2), ("1", 1), ("2", 2)):
        write(syncs.here, a=text)
        answers.clear()
        assert (await syncs.push()).hosts[0].problem is None
        assert len(answers) == trips


async def test_what_another_host_does_not_have_any_more_comes_from_here(tmp_path, monkeypatch):
    """A kernel there has changed a file before the next host got it."""
    syncs = Syncs(tmp_path, 3)
    (syncs.here / "data").write_bytes(os.urandom(2 * MIB))
    write(syncs.here, code="1")
    fetch, receive = RemoteProject.fetch, RemoteProject.receive
    fetched: list[str] = []
    ready: list[object] = []
    relay = sync._relay

    async def noting(*arguments: Any) -> Any:
        ready.append(arguments)
        return await relay(*arguments)

    async def receiving(*arguments: Any) -> Any:
        await eventually(lambda: len(ready) == 3)
        return await receive(*arguments)

    async def meanwhile(remote: RemoteProject, command: Any, *more: Any) -> Any:
        for host in syncs.hosts:
            if (host.home / "work" / "code").exists():
                write(host.home / "work", code=f"of {host.host.number}")
        received = await fetch(remote, command, *more)
        fetched.append(str(received))
        return received

    monkeypatch.setattr(sync, "_relay", noting)
    monkeypatch.setattr(RemoteProject, "receive", receiving)
    monkeypatch.setattr(RemoteProject, "fetch", meanwhile)
    outcomes = (await syncs.push()).hosts
    assert [outcome.problem for outcome in outcomes] == [None] * 3
    assert [outcome.refused for outcome in outcomes] == [[]] * 3
    assert len(fetched) == 2
    assert all("it was changed while it was sent" in received for received in fetched)
    for host in range(3):
        assert (syncs.there(host) / "data").read_bytes() == (syncs.here / "data").read_bytes()
    assert sum(outcome.transferred for outcome in outcomes) < 2.5 * MIB


async def test_a_host_does_not_choose_what_another_one_gets(tmp_path, monkeypatch):
    """The list of changes that it passes on is the one that was sent from here, or nothing."""
    syncs = Syncs(tmp_path, 2)
    (syncs.here / "data").write_bytes(os.urandom(2 * MIB))
    lying = "import json, sys; print(json.dumps({'changes': [{'path': 'evil', 'state': 'file 0', "
    lying += "'size': 0, 'expected': None}]}))"

    def pod_command(host: ProjectHost, argv: Any) -> list[str]:
        from jupyter_tpu.on_host.agent.protocol.login_shell import OUTPUT_MARK

        return ["python3", "-c", f"import sys; sys.stdout.write({OUTPUT_MARK.decode()!r}); {lying}"]

    monkeypatch.setattr(ProjectHost, "pod_command", pod_command)
    outcomes = (await syncs.push()).hosts
    assert [outcome.problem for outcome in outcomes] == [None] * 2
    for host in (0, 1):
        assert os.listdir(syncs.there(host)) == ["data"]
    assert min(outcome.transferred for outcome in outcomes) > 2 * MIB

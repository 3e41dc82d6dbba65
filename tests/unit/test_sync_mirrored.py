"""How a TPU shows the projects that go to its hosts by themselves."""

from types import SimpleNamespace
from typing import Any

from project_host import ProjectHost

from jupyter_tpu.cloud import NodeName
from jupyter_tpu.files.sync import Mirrors, ProjectLocation
from jupyter_tpu.fleet.files import mirrored_projects

NAME = NodeName("p", "z", "my-tpu")


async def test_a_tpu_shows_its_projects_with_what_is_in_conflict_until_their_kernels_are_gone(
    tmp_path, monkeypatch
):
    mirrors = Mirrors(tmp_path / "sync")
    monkeypatch.setattr(mirrored_projects, "default_mirrors", lambda: mirrors)
    host, namesake = ProjectHost(tmp_path / "host"), ProjectHost(tmp_path / "namesake")
    namesake.node_id = "2"
    changed: list[NodeName] = []
    connections: Any = SimpleNamespace(link=lambda name: host)
    projects = mirrored_projects.MirroredProjects(connections, changed.append)

    here, there = tmp_path / "project", host.home / "project"
    here.mkdir()
    there.mkdir()
    (here / "train.py").write_text("ours")
    (there / "train.py").write_text("theirs")
    with (here / "huge").open("wb") as file:
        file.truncate(50_000_000_000)
    mirror, _ = mirrors.acquire(host, ProjectLocation(here))
    other, _ = mirrors.acquire(namesake, ProjectLocation(here))  # of another cloud
    assert await mirror.catch_up(120)
    (shown,) = projects.on(NAME)
    assert (shown.folder, shown.remote, shown.host) == (str(here), "~/project", 0)
    assert (shown.state, shown.problem) == ("current", None)
    assert [(conflict.path, conflict.kind) for conflict in shown.result.conflicts] == [
        ("train.py", "different")
    ]
    assert [entry.path for entry in shown.result.not_copied] == ["huge"]
    assert projects.on(NAME) == [shown]  # nothing in it moves by itself
    assert projects.on(NodeName("p", "z", "other")) == []

    (there / "train.py").write_text("ours")  # decided by hand
    mirrors.recheck(str(here))
    assert await mirror.catch_up(120)
    assert projects.on(NAME)[0].result.conflicts == []
    changed.clear()
    await mirrors.release(mirror)
    assert projects.on(NAME) == []
    assert set(changed) == {NAME}
    changed.clear()
    await mirrors.release(other)
    assert changed == []
    projects.close()

"""Which folder a notebook's project is, and a folder of a host that follows it."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from project_host import ProjectHost
from waiting import eventually

from jupyter_tpu.errors import InvalidInput, Reason
from jupyter_tpu.files.sync import Mirrors, ProjectLocation, Watcher, find_project
from jupyter_tpu.files.sync.location import project_at
from jupyter_tpu.files.sync.remote import RemoteProject


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.mark.parametrize("marker", [".git", "pyproject.toml", ""])
def test_a_project_is_the_nearest_marked_folder_or_else_the_notebooks_own(home, marker):
    folder = home / "work" / "thesis" / "notebooks"
    folder.mkdir(parents=True)
    (home / ".git").mkdir()  # of the settings of its owner
    if marker:
        (home / "work/thesis" / marker).touch()
    project = find_project(folder)
    expected = (home / "work/thesis", "notebooks") if marker else (folder, "")
    assert (project.folder, project.below) == expected


@pytest.mark.parametrize(
    ("folder", "why"),
    [
        (".", "home folder"),
        ("..", "home folder"),
        ("Downloads", "not the folder of one project"),
        (".ssh", "hidden"),
        (".config/thing/notebooks", "hidden"),
        ("work/ignored", "left out by .gitignore"),
    ],
)
def test_folders_that_are_no_project_are_not_copied_without_being_named(home, folder, why):
    (home / folder).mkdir(parents=True, exist_ok=True)
    (home / "work").mkdir(exist_ok=True)
    (home / "work/pyproject.toml").touch()
    (home / "work/.gitignore").write_text("ignored/\n")
    with pytest.raises(InvalidInput, match=why):
        find_project(home / folder)
    with pytest.raises(InvalidInput, match="home folder"):
        find_project(Path("/"))


def test_the_files_of_a_job_of_jupyter_scheduler_are_a_project(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / ".local/share/jupyter"))
    job = tmp_path / ".local/share/jupyter/scheduler_staging_area/b1b2"
    (job / "notebooks").mkdir(parents=True)
    assert find_project(job) == ProjectLocation(job)
    assert find_project(job / "notebooks") == ProjectLocation(job, "notebooks")
    with pytest.raises(InvalidInput, match="is in a hidden folder"):
        find_project(job.parent)


def test_a_named_folder_is_taken_as_it_is(home):
    (home / "Downloads").mkdir()
    assert project_at(home / "Downloads", home / "elsewhere") == ProjectLocation(home / "Downloads")


async def settled(mirror) -> None:
    assert await mirror.catch_up(120)  # as long as a busy machine may take


async def test_two_projects_of_one_name_get_folders_of_their_own(tmp_path):
    host = ProjectHost(tmp_path / "host")
    mirrors = Mirrors(tmp_path / "sync")
    remotes = []
    for place in ("a", "b", "a"):
        folder = tmp_path / place / "project"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "where").write_text(place)
        mirror, _ = mirrors.acquire(host, ProjectLocation(folder))
        await settled(mirror)
        remotes.append(mirror.remote)
        assert (host.home / mirror.remote[2:] / "where").read_text() == place
        await mirrors.release(mirror)
    assert remotes[0] == remotes[2] == "~/project" != remotes[1]
    # Under another name, the next version would not find the file, and mix the folders.
    assert list((tmp_path / "sync").glob("owner-*"))


async def test_changes_go_by_themselves_also_in_new_folders_and_notebooks_only_beside_them(
    tmp_path,
):
    folder = tmp_path / "project"
    folder.mkdir()
    host = ProjectHost(tmp_path / "host")
    mirrors = Mirrors(tmp_path / "sync")
    mirror, _ = mirrors.acquire(host, ProjectLocation(folder))
    await settled(mirror)
    there = host.home / "project"

    async def arrives(path: str, text: str) -> None:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
        file = there / path
        await eventually(lambda: file.exists() and file.read_text() == text, 120)

    async with Watcher(folder) as watcher:
        (folder / "nb.ipynb").write_text("{}")
        await watcher.wait(30)  # the system has reported it
    assert not there.exists()
    await arrives("a.py", "1")
    await eventually((there / "nb.ipynb").exists)  # files arrive one after the other
    assert host.conversations == 2
    await arrives("new/deeper/b.py", "1")
    await arrives("new/deeper/b.py", "22")
    os.unlink(folder / "new/deeper/b.py")
    os.rmdir(folder / "new/deeper")
    await arrives("new/deeper/b.py", "333")  # a folder that is made again
    await mirrors.release(mirror)


async def test_a_cell_gets_what_was_saved_while_the_first_copy_was_made(tmp_path, monkeypatch):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("1")
    host = ProjectHost(tmp_path / "host")
    mirrors = Mirrors(tmp_path / "sync")
    mirror, _ = mirrors.acquire(host, ProjectLocation(folder))
    copy, copied, go = mirror._copy, asyncio.Event(), asyncio.Event()

    async def copy_and_wait(*arguments: Any) -> Any:
        made = await copy(*arguments)
        copied.set()
        await go.wait()
        return made

    monkeypatch.setattr(mirror, "_copy", copy_and_wait)
    await copied.wait()
    (folder / "new.py").write_text("2")  # the system reports it a moment later
    catching_up = asyncio.create_task(mirror.catch_up(60))
    await asyncio.sleep(0)  # it waits now
    go.set()
    assert await catching_up
    assert (host.home / "project/new.py").read_text() == "2"
    await mirrors.release(mirror)


async def test_a_problem_of_the_host_ends_the_waiting_and_passes_with_the_next_change(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("1")
    host = ProjectHost(tmp_path / "host")
    (host.home / "project").write_text("in the way")
    mirrors = Mirrors(tmp_path / "sync")
    mirror, news = mirrors.acquire(host, ProjectLocation(folder))
    await settled(mirror)
    assert mirror.state == "failed"
    assert mirror.problem is not None
    (line,) = news.lines(current=True)
    assert line.startswith(f"The project {folder} is not up to date on my-tpu: {host.home}/")
    assert news.lines(current=True) == []
    (host.home / "project").unlink()
    (folder / "a.py").write_text("22")
    await settled(mirror)
    assert news.lines(current=True) == []
    assert (host.home / "project/a.py").read_text() == "22"
    await eventually(lambda: mirror.state == "current", 120)
    await mirrors.release(mirror)


async def test_a_folder_that_is_gone_ends_the_mirror_with_the_reason(tmp_path):
    folder = tmp_path / "project"
    folder.mkdir()
    mirrors = Mirrors(tmp_path / "sync")
    mirror, _ = mirrors.acquire(ProjectHost(tmp_path / "host"), ProjectLocation(folder))
    await settled(mirror)
    folder.rmdir()
    await eventually(lambda: mirror.problem, 120)
    assert mirror.problem.reason is Reason.NO_FOLDER
    await settled(mirror)
    await mirrors.release(mirror)
    assert mirrors.running() == []


async def test_the_other_hosts_of_a_pod_get_the_project_too_and_no_cell_waits_for_them(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("jupyter_tpu.files.sync.watcher._RETRY_SECONDS", 0.5)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "a.py").write_text("1")
    pod = [ProjectHost(tmp_path / f"host-{worker}", worker) for worker in range(3)]
    for host in pod:
        host.pod = pod
    pod[2].breaks_after = 0
    mirrors = Mirrors(tmp_path / "sync")
    changed = asyncio.Event()
    mirrors.subscribe(lambda mirror: changed.set())
    mirror, _ = mirrors.acquire(pod[0], ProjectLocation(folder))

    async def outcomes(expected: dict[int, bool]) -> None:
        async with asyncio.timeout(120):
            while mirror.overall is None or expected != {
                host.host: host.problem is None for host in mirror.overall.hosts
            }:
                changed.clear()
                await changed.wait()

    async def arrives(host: ProjectHost, text: str) -> None:
        await eventually(lambda: (host.home / "project/a.py").read_text() == text, 120)

    await settled(mirror)
    assert mirror.state == "current"
    await outcomes({0: True, 1: True, 2: False})
    (folder / "a.py").write_text("22")
    await arrives(pod[1], "22")
    pod[2].breaks_after = None
    await outcomes({0: True, 1: True, 2: True})
    await arrives(pod[2], "22")

    beside, _ = mirrors.acquire(pod[1], ProjectLocation(folder))  # has a kernel of its own now
    await settled(beside)
    (folder / "a.py").write_text("333")
    await arrives(pod[2], "333")
    await outcomes({0: True, 2: True})
    assert [host.host for host in beside.overall.hosts] == [1]
    await mirrors.release(mirror)
    mirror = beside
    await outcomes({0: True, 1: True, 2: True})
    await mirrors.release(beside)


async def test_a_file_that_grows_all_the_time_holds_no_cell_and_arrives_as_it_was(tmp_path):
    """The log of the program that runs the notebook, say."""
    folder = tmp_path / "project"
    folder.mkdir()
    log = folder / "run.log"
    log.touch()

    async def grow() -> None:
        with log.open("a") as file:
            while True:
                print("one more line", file=file, flush=True)
                await asyncio.sleep(0.01)

    growing = asyncio.create_task(grow())
    mirrors = Mirrors(tmp_path / "sync")
    mirror, news = mirrors.acquire(ProjectHost(tmp_path / "host"), ProjectLocation(folder))
    there = tmp_path / "host" / "project"
    try:
        for number in range(3):
            (folder / "module.py").write_text(str(number))
            size = log.stat().st_size
            async with asyncio.timeout(60):
                await settled(mirror)
            assert (there / "module.py").read_text() == str(number)
            assert (there / "run.log").stat().st_size >= size
            assert log.read_bytes().startswith((there / "run.log").read_bytes())
            assert news.lines(True) == []
    finally:
        growing.cancel()
        await mirrors.release(mirror)


async def test_a_command_waits_for_a_project_as_long_as_something_of_it_arrives(
    tmp_path, monkeypatch
):
    """Over a slow line, which takes longer than it waits without progress."""
    monkeypatch.setattr("jupyter_tpu.files.sync.mirrors.HOLD_SECONDS", 5.0)
    receive, arriving = RemoteProject.receive, True

    async def slow(
        remote: RemoteProject, folder: str, changes: Any, known: Any, report: Any, *more: Any
    ) -> Any:
        for _ in range(12):
            await asyncio.sleep(0.5)
            report(0)
        while not arriving:
            await asyncio.sleep(0.2)
        return await receive(remote, folder, changes, known, report, *more)

    monkeypatch.setattr(RemoteProject, "receive", slow)
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "data").write_text("1")
    host = ProjectHost(tmp_path / "host")
    mirrors = Mirrors(tmp_path / "sync")
    mirror, _ = mirrors.acquire(host, ProjectLocation(folder))
    await mirrors.catch_up(host.host_id)
    assert (host.home / "project/data").read_text() == "1"
    arriving = False
    (folder / "data").write_text("22")
    async with asyncio.timeout(60):
        await mirrors.catch_up(host.host_id)
    assert (host.home / "project/data").read_text() == "1"
    await mirrors.release(mirror)

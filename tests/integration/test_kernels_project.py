"""A notebook's project on the host of its kernel, over a line that can be cut."""

import fcntl
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager
from local_kernels import Notebook, local_host, printed
from waiting import until

from jupyter_tpu.files.sync import default_mirrors

Start = Callable[..., Notebook]


@pytest.fixture(scope="module")
def machine() -> Iterator[tuple[Any, Callable[..., KernelManager]]]:
    with local_host("project-host") as made:
        yield made


@pytest.fixture
def home(machine: Any) -> Path:
    return machine[0].home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / f"my {tmp_path.name}"
    (folder / "notebooks").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".gitignore").write_text("*.npz\n")
    (folder / "notebooks/model.py").write_text("def answer():\n    return 41\n")
    (folder / "notebooks/weights.npz").write_text("large")
    return folder


@pytest.fixture
def start(machine: Any, project: Path, home: Path, monkeypatch: Any) -> Iterator[Start]:
    """``start(folder)``: a notebook in a folder of the project, with a kernel on the host."""
    monkeypatch.setenv("JUPYTER_TPU_PROJECT_SYNC", "auto")
    made: list[Notebook] = []

    def start(folder: str | Path = "notebooks") -> Notebook:
        manager = machine[1]()
        manager.start_kernel(cwd=str(project / folder))
        made.append(Notebook(manager))
        return made[-1]

    yield start
    machine[0].loop_call(machine[0].mend)
    for notebook in made:
        notebook.close()
        notebook.manager.shutdown_kernel(now=True)
    until(lambda: not default_mirrors().running())
    shutil.rmtree(home / project.name, ignore_errors=True)


@contextmanager
def copies_wait(home: Path) -> Iterator[None]:
    """For the folder of the latest copy, as while another sync holds it."""
    newest = max(home.glob(".jupyter-tpu/sync/*.lock"), key=lambda path: path.stat().st_mtime)
    with newest.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def test_a_module_that_is_changed_here_is_the_new_one_in_the_next_cell(start, project, home):
    notebook = start()
    assert notebook.text("import os; print(os.getcwd())").strip() == str(
        home / project.name / "notebooks"
    )
    notebook.run("%load_ext autoreload\n%autoreload 2\nimport model")
    assert notebook.text("print(model.answer())") == "41\n"
    for number in (7, 123, 4567):  # of other lengths: Python's cache knows seconds and sizes
        (project / "notebooks/model.py").write_text(f"def answer():\n    return {number}\n")
        assert notebook.text("print(model.answer())") == f"{number}\n"
    # A module that a build makes, which Git does not have.
    (project / ".gitignore").write_text("*.npz\n_version.py\n")
    (project / "src/package").mkdir(parents=True)
    for name in ("__init__", "_version"):
        (project / f"src/package/{name}.py").touch()
    notebook.run("import sys; sys.path.insert(0, '../src')")
    why = (
        f"[src/package/_version.py is not on {home.name}: .gitignore leaves it out. Change "
        ".gitignore, or make the file there.]\n"
    )
    for code, line in (
        ("import package._version", why),
        ("from package import _version", why),
        ("import nothing_of_this_name", ""),
    ):
        content, seen = notebook.run(code, stop_on_error=False)
        assert (content["status"], printed(seen)) == ("error", line)
    (project / "notebooks/model.py").unlink()
    assert notebook.text("print(os.path.exists('model.py'))") == "False\n"
    assert not (home / project.name / "notebooks/weights.npz").exists()


def test_what_the_host_has_changed_stays_and_is_reported_once_with_what_to_do(start, project, home):
    notebook, beside = start(), start(".")
    assert len(default_mirrors().running()) == 1
    notebook.text("open('model.py', 'w').write('theirs'); open('result.txt', 'w').write('0.9')")
    (project / "notebooks/model.py").write_text("ours")
    output = notebook.text("print(open('model.py').read())")
    assert output.startswith("[notebooks/model.py was changed here and on h-")
    assert f"jupyter tpu sync '{project}' '{home.name}:{project.name}' --overwrite --only" in output
    assert output.endswith("]\ntheirs\n")
    for kernel in (notebook, beside):
        assert kernel.text("print(1)") == "1\n"
    assert not (project / "notebooks/result.txt").exists()
    beside.manager.restart_kernel()
    beside.client.wait_for_ready(timeout=60)
    assert beside.text("import os; print(os.path.basename(os.getcwd()))") == f"{project.name}\n"


def test_what_is_too_large_to_go_by_itself_is_named_once(start, project):
    with (project / "huge.bin").open("wb") as file:
        file.truncate(50_000_000_000)
    (project / "out").symlink_to("/etc")
    notebook = start()
    output = notebook.text("import os; print(sorted(os.listdir('..')))")
    assert output.startswith("[Not copied to ")
    assert "huge.bin (50 GB, larger than the limit), out (a link out of the folder).]\n" in output
    assert output.endswith("['.gitignore', 'notebooks']\n")
    assert notebook.text("print(1)") == "1\n"
    assert start().text("print(1)") == "1\n"


def test_a_folder_that_is_not_copied_is_reported_once_and_its_kernel_starts_at_home(
    start, project, home, monkeypatch
):
    monkeypatch.setenv("HOME", str(project / "notebooks"))
    notebook = start()
    output = notebook.text("import os; print(os.getcwd())")
    assert output.startswith("[The notebook's files are not copied to ")
    assert "is your home folder, or a folder above it. Move the notebook" in output
    assert output.endswith(f"]\n{home}\n")
    assert start().text("print(1)") == "1\n"
    assert default_mirrors().running() == []


def test_cells_wait_for_a_cut_line_and_then_run_with_the_files_of_now(machine, start, project):
    notebook = start()
    host = machine[0]
    host.loop_call(host.cut)
    (project / "notebooks/new.py").write_text("x = 1")
    request = notebook.client.execute("import new; print(new.x)")
    (mirror,) = default_mirrors().running()
    until(lambda: mirror.problem is not None)
    (project / "notebooks/new.py").write_text("x = 2222")
    host.loop_call(host.mend)
    seen = notebook.until_idle(request)
    assert printed(seen) == "2222\n"


def test_a_cell_does_not_wait_longer_than_the_limit_and_says_so(start, project, home, monkeypatch):
    notebook = start()
    assert notebook.text("print(1)") == "1\n"
    monkeypatch.setattr("jupyter_tpu.kernels.project.HOLD_SECONDS", 0.01)
    with copies_wait(home):
        (project / "notebooks/new.py").write_text("x = 1")
        output = notebook.text("import os; print(os.path.exists('new.py'))")
        assert output.startswith(f"[{project.name} is still being copied to ")
        assert output.endswith("]\nFalse\n")
    monkeypatch.setattr("jupyter_tpu.kernels.project.HOLD_SECONDS", 30)
    assert notebook.text("import os; print(os.path.exists('new.py'))") == "True\n"


def test_cells_that_wait_for_the_project_end_when_the_kernel_is_interrupted_restarted_or_ended(
    start, project, home
):
    notebook = start()
    client = notebook.client
    assert notebook.text("count = 0; print(count)") == "0\n"

    def held(codes: tuple[str, ...]) -> list[str]:
        (project / "notebooks/new.py").write_text(codes[0])
        requests = [client.execute(code) for code in codes]
        waiting = notebook.manager.provisioner._relay._project._held
        until(lambda: len(waiting) == len(codes))
        return requests

    def replies(requests: list[str]) -> list[str]:
        results = {}
        while len(results) < len(requests):
            message = client.get_shell_msg(timeout=60)
            content = message["content"]
            results[message["parent_header"]["msg_id"]] = content.get("ename", content["status"])
        for request in requests:
            notebook.until_idle(request)
        return [results[request] for request in requests]

    with copies_wait(home):
        requests = held(("count += 1", "count += 10"))
        completion = client.complete("cou")  # is answered, as by ipykernel
        notebook.manager.interrupt_kernel()
        assert replies([*requests, completion]) == ["KeyboardInterrupt", "aborted", "ok"]
    assert notebook.text("print(count)") == "0\n"
    with copies_wait(home):
        requests = held(("count += 100",))
        notebook.manager.restart_kernel()
        assert replies(requests) == ["KeyboardInterrupt"]  # jupyter_client interrupts it first
    client.wait_for_ready(timeout=60)
    assert notebook.text("print('count' in globals())") == "False\n"
    with copies_wait(home):
        requests = held(("count = 1", "count = 2"))
        client.shutdown()
        assert replies(requests) == ["aborted", "aborted"]

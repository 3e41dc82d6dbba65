"""The distributions: what is in them, and that the wheel works where there is no Node.js."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_server import LabPage, LabServer

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")
NODE = {"node", "nodejs", "npm", "npx"}
BUILT = "jupyter_tpu/labextension"
FRONTEND = "share/jupyter/labextensions/jupyter-tpu"


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `make dist` makes, from a copy of the files that git knows: a build cleans up first."""
    if not (ROOT / "node_modules").is_dir() or shutil.which("npm") is None:
        pytest.skip("SKIPPED FOR WANT OF Node.js: the frontend can't be built")
    source = sources(tmp_path_factory.mktemp("dist") / "source")
    # TypeScript resolves links to the original's place, where the copy's types are not.
    shutil.copytree(ROOT / "node_modules", source / "node_modules", copy_function=_link_or_copy)
    stale = source / "jupyter_tpu/labextension/static/style.js"
    stale.parent.mkdir(parents=True)
    stale.write_text("// an earlier build's")
    subprocess.run([UV, "build", "--quiet", "--out-dir", source / "dist"], cwd=source, check=True)
    return source / "dist"


@pytest.fixture(scope="module")
def wheel(dist: Path) -> Path:
    [wheel] = dist.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def quick_wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with the frontend that `make setup` has built, since building takes minutes."""
    folder = tmp_path_factory.mktemp("quick")
    source = sources(folder / "source")
    shutil.copytree(ROOT / BUILT, source / BUILT)
    (source / "node_modules").mkdir()
    npm = folder / "npm"
    npm.write_text(f'#!/bin/sh\nprintf "%s " "$@" >{folder}/asked\n')
    npm.chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    command = [UV, "build", "--quiet", "--wheel", "--out-dir", folder]
    subprocess.run(command, cwd=source, env=environment, check=True)
    assert (folder / "asked").read_text() == "run --silent build:prod "
    [wheel] = folder.glob("*.whl")
    return wheel


def sources(folder: Path) -> Path:
    """A copy of the files that git knows."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in names.split("\0"):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    return folder


def test_an_installed_wheel_is_an_extension_of_jupyter_without_node(quick_wheel, tmp_path):
    names = zipfile.ZipFile(quick_wheel).namelist()
    assert [name.partition("/data/")[2] for name in names if name.endswith("static/style.js")] == [
        f"{FRONTEND}/static/style.js"
    ]
    assert any(name.endswith(f"/data/{FRONTEND}/install.json") for name in names)
    assert any(name.endswith("jupyter_server_config.d/jupyter_tpu.json") for name in names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "jupyter_tpu/py.typed" in names
    packages = {name.split("/")[0] for name in names}
    assert packages == {
        "jupyter_tpu",
        *(name for name in packages if name.startswith("jupyter_tpu-")),
    }
    with installed_lab(quick_wheel, tmp_path) as server:
        tpus = server.call("GET", "tpus")
        assert tpus["tpus"] == []
        extensions = page_config(server)["federated_extensions"]
        [ours] = [extension for extension in extensions if extension["name"] == "jupyter-tpu"]
        entry = f"{server.url}/lab/extensions/jupyter-tpu/{ours['load']}"
        with urllib.request.urlopen(entry, timeout=60) as answer:
            assert b"jupyter-tpu" in answer.read()


@pytest.mark.long  # which frontend it is; the rest of it: the first test of this file
def test_the_wheel_carries_the_production_frontend_once_and_no_development_files(wheel):
    archive = zipfile.ZipFile(wheel)
    names = archive.namelist()
    [style] = [name for name in names if name.endswith("static/style.js")]
    assert style.endswith(f"/data/{FRONTEND}/static/style.js")
    assert "an earlier build's" not in archive.read(style).decode()
    assert not [name for name in names if name.endswith(".map")]
    assert wheel.stat().st_size < 2_500_000


@pytest.mark.long
def test_the_sdist_builds_the_same_wheel_without_node(dist, wheel, tmp_path):
    [sdist] = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]
    assert not [name for name in names if name.startswith(("tests/", "node_modules/", ".ci"))]
    assert sdist.stat().st_size < 3_000_000
    subprocess.run(
        [UV, "build", "--quiet", "--wheel", "--out-dir", tmp_path, sdist],
        env=environment_without_node(tmp_path),
        check=True,
    )
    [again] = tmp_path.glob("*.whl")
    assert contents(again) == contents(wheel)


@pytest.mark.long
def test_the_sdist_carries_the_documentation_site_if_it_was_built(dist, tmp_path):
    source = dist.parent
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet"]
    subprocess.run(build, cwd=source, check=True)
    subprocess.run(
        [UV, "build", "--quiet", "--sdist", "--out-dir", tmp_path], cwd=source, check=True
    )
    [sdist] = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        "site/index.html",
        "site/tutorial/emulator.html",
        "site/search/search_index.js",
    } <= names
    assert sdist.stat().st_size < 5_000_000


@pytest.mark.long  # without a browser: the first test of this file
def test_the_installed_wheel_opens_its_panel_in_an_environment_without_node(
    wheel, browser, tmp_path
):
    with installed_lab(wheel, tmp_path) as server:
        context = browser.new_context()
        lab = LabPage(context.new_page(), server)
        lab.open()
        lab.open_form()
        context.close()


@contextlib.contextmanager
def installed_lab(wheel: Path, folder: Path) -> Iterator[LabServer]:
    """JupyterLab and *wheel* in an environment of their own, where there is no Node.js."""
    venv = folder / "venv"
    subprocess.run([UV, "venv", "--quiet", "--python", sys.executable, venv], check=True)
    python = venv / "bin/python"
    subprocess.run([UV, "pip", "install", "-q", "-p", python, wheel, "jupyterlab"], check=True)
    environment = environment_without_node(folder)
    options = ["--JupyterTPU.emulator=True"]
    server = LabServer(folder / "lab", options=options, python=python, path=environment["PATH"])
    try:
        where = "import jupyter_tpu; print(jupyter_tpu.__file__)"
        completed = subprocess.run(
            [python, "-c", where], cwd=folder, capture_output=True, text=True
        )
        assert completed.stdout.startswith(str(venv))
        yield server
    finally:
        server.stop()


def page_config(server: LabServer) -> Any:
    """What the page of JupyterLab tells its program."""
    page = f"{server.url}/lab?token={server.token}"
    with urllib.request.urlopen(page, timeout=60) as answer:
        html = answer.read().decode()
    return json.loads(re.findall(r'id="jupyter-config-data"[^>]*>(.*?)</script>', html, re.S)[0])


def environment_without_node(home: Path) -> dict[str, str]:
    """The system's programs, apart from Node.js, and none of this environment's."""
    tools = home / "tools"
    tools.mkdir()
    for folder in map(Path, os.environ["PATH"].split(os.pathsep)):
        if folder.is_dir() and not folder.is_relative_to(sys.prefix):
            for program in folder.iterdir():
                if program.name not in NODE and not (tools / program.name).is_symlink():
                    (tools / program.name).symlink_to(program)
    return {**os.environ, "PATH": str(tools)}


def contents(wheel: Path) -> dict[str, int]:
    """Names and checksums of the files in *wheel*."""
    return {info.filename: info.CRC for info in zipfile.ZipFile(wheel).infolist()}


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # on another file system
        shutil.copy2(source, target)

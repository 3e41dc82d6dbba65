"""What a visitor copies from the README, typed with an empty home and in a fresh clone."""

import os
import re
import shutil
import signal
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from waiting import until

ROOT = Path(__file__).parents[2]
CLONED = "https://github.com/jupyter-tpu/jupyter-tpu"
LIMIT = 900.0  # seconds; everything is downloaded
#: What a shell has at the beginning, and how this machine reaches package indexes.
KEPT = re.compile(
    r"PATH|LANG|LC_\w+|\w+_(PROXY|INDEX_URL|CA_BUNDLE|CERT_FILE)|(PIP|UV|NPM|npm)_\w+", re.I
)


def blocks(title: str) -> list[str]:
    """The commands of a section of the README, a text for each block without a language."""
    text = (ROOT / "README.md").read_text()
    [section] = re.findall(rf"^## {title}\n(.*?)^## ", text, re.MULTILINE | re.DOTALL)
    return re.findall(r"^```\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)


def test_the_readme_begins_with_lines_that_need_no_release():
    packages, lab = blocks("Try it now, without a cloud account")
    assert packages.startswith("sudo apt install ")
    assert lab.splitlines() == [f"git clone {CLONED}", "cd jupyter-tpu", "make lab"]
    assert [line.partition(" ")[2] for line in blocks("Install")[0].splitlines()] == [
        "-m venv ~/tpu-env",
        "install . jupyterlab",
        "lab --JupyterTPU.emulator=True",
    ]
    pages = [ROOT / "README.md", ROOT / "vscode/README.md", *(ROOT / "docs").rglob("*.md")]
    released = re.compile(r"pip install jupyter-tpu\b(?!\[)")
    assert [page.name for page in pages if released.search(page.read_text())] == []


def test_all_that_make_lab_needs_is_named_at_once_with_the_packages_that_have_it(tmp_path):
    tools = {name: shutil.which(name) for name in ("bash", "apt-get")}
    for name, program in tools.items():
        (tmp_path / name).symlink_to(program or "/bin/true")
    (tmp_path / "python3").write_text("#!/bin/bash\n[[ $2 != *ensurepip* ]]\n")
    (tmp_path / "python3").chmod(0o755)
    check = subprocess.run(
        [ROOT / "scripts/check-tools"], env={"PATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert check.returncode == 1
    assert check.stderr.splitlines() == [
        "jupyter-tpu: The Python module venv was not found.",
        "jupyter-tpu: node was not found; install Node.js 20 or newer.",
        "jupyter-tpu: Debian 13 and Ubuntu 24.10, or newer, have them: "
        "sudo apt install python3-venv nodejs npm",
    ]
    [packages, _] = blocks("Try it now, without a cloud account")
    assert {"python3-venv", "nodejs", "npm"} <= set(packages.split())


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository of what this checkout has now, changes included."""
    folder = tmp_path_factory.mktemp("readme") / "repository"
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in names.rstrip("\0").split("\0"):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    author = ("-c", "user.name=Test", "-c", "user.email=test@localhost")
    for arguments in (
        ["init", "--quiet"],
        ["add", "--all"],
        [*author, "commit", "--quiet", "-m", "All"],
    ):
        subprocess.run(["git", *arguments], cwd=folder, check=True)
    return folder


@pytest.fixture
def home(repository: Path, tmp_path: Path) -> dict[str, str]:
    """The environment of somebody who has nothing yet. The clone's address is this checkout."""
    environment = {name: value for name, value in os.environ.items() if KEPT.fullmatch(name)}
    tools = [folder for folder in environment["PATH"].split(":") if ".venv" not in folder]
    return environment | {
        "HOME": str(tmp_path),
        "PATH": ":".join(tools),
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{repository}.insteadOf",
        "GIT_CONFIG_VALUE_0": CLONED,
        "JUPYTER_ALLOW_INSECURE_WRITES": "true",
    }


def _answers(address: str) -> bool:
    """Whether it is JupyterLab with this extension; its address is printed a moment before."""
    try:
        with urllib.request.urlopen(address, timeout=60) as page:
            return "jupyter-tpu" in page.read().decode()
    except ConnectionError:
        return False
    except urllib.error.URLError as error:
        if isinstance(error.reason, ConnectionError):
            return False
        raise


def serve(script: str, environment: dict[str, str], folder: Path) -> None:
    """Runs lines of which the last one starts JupyterLab, opens its address, and ends it."""
    shell = subprocess.Popen(
        ["bash", "-ec", script],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert shell.stdout is not None
    printed = ""
    try:
        while (address := re.search(r"http://127\.0\.0\.1:\d+/lab\?token=\w+", printed)) is None:
            line = shell.stdout.readline()
            assert line, printed
            printed += line
        until(lambda: _answers(address[0]), 60, lambda: printed)
        os.killpg(shell.pid, signal.SIGTERM)
        shell.stdout.read()
        shell.wait(60)
    finally:
        if shell.poll() is None:
            os.killpg(shell.pid, signal.SIGKILL)


@pytest.mark.long
@pytest.mark.timeout(LIMIT)
def test_make_lab_works_in_a_fresh_clone_and_an_empty_home(home, tmp_path):
    _, lab = blocks("Try it now, without a cloud account")
    serve(lab, home, tmp_path)
    assert not (tmp_path / ".ssh").exists()
    made = (tmp_path / "jupyter-tpu" / ".lab" / "notebooks" / "first-steps.ipynb").exists()
    assert made


@pytest.mark.long
@pytest.mark.timeout(LIMIT)
def test_the_clone_is_installed_into_an_environment_of_ones_own(home, tmp_path):
    clone = blocks("Try it now, without a cloud account")[1].splitlines()[:2]
    root = " --allow-root" if os.geteuid() == 0 else ""
    serve("\n".join([*clone, blocks("Install")[0].rstrip() + root]), home, tmp_path)
    jupyter = tmp_path / "tpu-env" / "bin" / "jupyter"
    listed = subprocess.run([jupyter, "tpu", "--help"], env=home, capture_output=True, text=True)
    assert "create" in listed.stdout, listed.stderr

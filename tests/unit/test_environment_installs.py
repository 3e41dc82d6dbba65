"""What is recorded of packages that cells install, by real uv and two package indexes."""

import functools
import hashlib
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import urllib.request
import zipfile
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from jupyter_tpu.environment.models import Locked
from jupyter_tpu.on_host.calls import paths
from jupyter_tpu.on_host.calls.protocol import HostError
from jupyter_tpu.on_host.environments import commands, packages, pytorch, resolution
from jupyter_tpu.on_host.environments.uv import uv_environment

NOTE = "  # --index-url "


def write_wheel(folder: Path, name: str, version: str, *requires: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    info = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
    files = {
        f"{name}.py": f"__version__ = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in files)
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, text in files.items():
            wheel.writestr(path, text)


@pytest.fixture(scope="module")
def indexes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of two indexes: /host, the one of hosts, and /own."""
    folder = tmp_path_factory.mktemp("indexes")
    for name, version in (
        ("plain", "1.0"), ("plain", "2.0"), ("thing", "1.0"), ("kept", "3.0"), ("ipykernel", "6.0"),
    ):  # fmt: skip
        write_wheel(folder / "host" / name, name, version)
    write_wheel(folder / "host" / "torch", "torch", "2.3", "nvidia_cublas")
    write_wheel(folder / "host" / "torch", "torch", "2.2", "triton")
    write_wheel(folder / "host" / "torch", "torch", "2.1")
    for name in ("nvidia_cublas", "triton"):
        write_wheel(folder / "host" / name.replace("_", "-"), name, "1.0")
    write_wheel(folder / "cpu" / "torch", "torch", "2.3+cpu", "plain")
    write_wheel(folder / "own" / "thing", "thing", "1.0+cpu", "kept", "inner")
    write_wheel(folder / "own" / "inner", "inner", "5.0")
    write_wheel(folder / "own" / "plain", "plain", "1.5")

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{web.server_port}"
        web.shutdown()


class Host:
    """A home folder with an environment of ours, and a folder in which cells run."""

    def __init__(self, home: Path, index: str) -> None:
        self.home, self.index = home, index
        self.path = home / ".jupyter-tpu" / "environments" / "default"
        self.folder = home / "project"
        self.folder.mkdir(parents=True)
        self.uv = shutil.which("uv", path=os.path.dirname(sys.executable)) or ""
        assert self.uv
        self.new(self.path)

    def new(self, path: Path) -> None:
        shutil.rmtree(path, ignore_errors=True)
        subprocess.run(
            [self.uv, "venv", "-q", "--python", sys.executable, path], check=True, env=self.env
        )
        commands.install_commands(str(path))

    @property
    def env(self) -> dict[str, str]:
        hidden = ("UV_", "PIP_", "VIRTUAL_ENV", "HTTP", "PYTHON")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        path = os.pathsep.join([str(self.path / "bin"), os.path.dirname(self.uv), os.defpath])
        return {
            **kept,
            "HOME": str(self.home),
            "PATH": path,
            "UV_DEFAULT_INDEX": f"{self.index}/host/",
            "UV_NO_CONFIG": "0",
            "UV_CACHE_DIR": str(self.home / "cache"),
        }

    def cell(self, line: str) -> str:
        """What a command prints."""
        done = subprocess.run(
            line, shell=True, cwd=self.folder, env=self.env, text=True, check=False,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        return done.stdout

    def write(self, name: str, text: str) -> None:
        (self.folder / name).parent.mkdir(exist_ok=True)
        (self.folder / name).write_text(textwrap.dedent(text))

    @property
    def recorded(self) -> list[str]:
        asked: list[str] = packages.requested(str(self.path))["packages"]
        return asked

    def has(self, name: str) -> str:
        there = packages.distributions(str(self.path))
        return str(there[name].version) if name in there else ""


@pytest.fixture
def host(tmp_path: Path, indexes: str, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(paths, "ROOT", str(tmp_path / ".jupyter-tpu"))
    host = Host(tmp_path, indexes)
    for name in [name for name in os.environ if name.startswith(("UV_", "PIP_"))]:
        monkeypatch.delenv(name)
    for name in ("UV_DEFAULT_INDEX", "UV_CACHE_DIR"):
        monkeypatch.setenv(name, host.env[name])
    return host


def test_a_package_of_an_index_of_its_own_comes_from_there_on_every_host(host, indexes):
    """Shown before: torch of the CPU wheels, which no other host and no later connection found."""
    host.cell("pip install kept")
    printed = host.cell(f"pip install -i{indexes}/own/ 'thing>=1'")
    assert "+ thing==1.0+cpu" in printed, printed
    noted = f"thing>=1{NOTE}{indexes}/own/"
    assert host.recorded == ["kept", noted]

    # The other hosts get the same, by the exact versions of this one.
    answer = packages.lock_packages(host.uv, "default")
    assert Locked(**answer).packages == host.recorded, "it is an answer that a host may give"
    lock = answer["lock"]
    assert f"thing==1.0+cpu{NOTE}{indexes}/own/" in lock.splitlines()
    assert "kept==3.0" in lock.splitlines()
    host.new(host.path)
    packages.sync_packages(host.uv, "default", lock, answer["packages"])
    assert (host.has("thing"), host.has("inner"), host.has("kept")) == ("1.0+cpu", "5.0", "3.0")
    assert host.recorded == ["kept", noted]

    # So does a new TPU: from what was asked for only.
    host.new(host.path)
    text = "\n".join([*answer["packages"], "plain", ""])
    lock = resolution.resolve(host.uv, "default", text)["lock"]
    packages.change_packages(host.uv, "default", lock.splitlines(), [])
    assert (host.has("thing"), host.has("inner"), host.has("plain")) == ("1.0+cpu", "5.0", "2.0")
    assert (
        f"thing==1.0+cpu{NOTE}{indexes}/own/" in packages.lock_packages(host.uv, "default")["lock"]
    )


def test_files_are_recorded_by_what_they_name(host, indexes):
    wheel = urllib.request.urlopen(f"{indexes}/host/kept/kept-3.0-py3-none-any.whl").read()
    digest = hashlib.sha256(wheel).hexdigest()
    host.write("hashes.txt", f"kept==3.0 \\\n    --hash=sha256:{digest}  # why\n")
    printed = host.cell("uv pip install -r hashes.txt")
    assert host.recorded == ["kept==3.0"], printed
    host.write("below/more.txt", "plain<2 ; python_version>='3'\n")
    host.write("own.txt", f"--index-url {indexes}/own/\n-r below/more.txt\n")
    printed = host.cell("pip install -rown.txt")
    plain = f"plain<2 ; python_version>='3'{NOTE}{indexes}/own/"
    assert host.recorded == ["kept==3.0", plain], printed
    host.write(
        "pyproject.toml",
        f"""
        [project]
        name = "mine"
        version = "0"
        dependencies = ["thing", "kept>=2"]
        [tool.uv.sources]
        thing = {{ index = "own" }}
        [[tool.uv.index]]
        name = "own"
        url = "{indexes}/own/"
        explicit = true
        """,
    )
    host.cell("pip uninstall -y plain kept")
    printed = host.cell(f"uv pip install -r pyproject.toml --extra-index-url {indexes}/own/")
    assert host.has("thing") == "1.0+cpu", printed
    assert host.recorded == ["kept==3.0", f"thing==1.0+cpu{NOTE}{indexes}/own/"], printed
    # It can still be changed.
    packages.change_packages(host.uv, "default", ["plain"], ["kept"])
    assert host.recorded == [f"thing==1.0+cpu{NOTE}{indexes}/own/", "plain"]


def test_folders_of_the_host_and_chosen_versions_are_told_apart(host, indexes):
    host.write(
        "backend/build.py",
        """
        import os, zipfile
        NAME = "local-0.dist-info"
        def build_wheel(folder, *_, editable=False):
            files = {"local.pth": os.getcwd() + "/src"} if editable else {"local.py": ""}
            files[NAME + "/METADATA"] = "Metadata-Version: 2.1\\nName: local\\nVersion: 0\\n"
            files[NAME + "/WHEEL"] = "Wheel-Version: 1.0\\nTag: py3-none-any\\n"
            files[NAME + "/RECORD"] = "".join(path + ",,\\n" for path in files)
            with zipfile.ZipFile(folder + "/local-0-py3-none-any.whl", "w") as wheel:
                for path, text in files.items():
                    wheel.writestr(path, text)
            return "local-0-py3-none-any.whl"
        def build_editable(folder, *_):
            return build_wheel(folder, editable=True)
        """,
    )
    (host.folder / "plain").mkdir()  # no package: `pip install plain` is the one of the index
    host.write(
        "pyproject.toml",
        """
        [build-system]
        requires = []
        build-backend = "build"
        backend-path = ["backend"]
        [project]
        name = "local"
        version = "0"
        """,
    )
    host.write("local.txt", "-e .\nkept\n")
    said = "is on this host only, so it is not recorded in the environment."
    for line in ("pip install -e .", "pip install .", "pip install -r local.txt"):
        printed = host.cell(line)
        assert f". {said}" in printed, printed
        assert host.has("local") == "0", printed
    assert host.recorded == ["kept"]
    host.cell("pip uninstall -y local")
    host.write("src/local.py", "answer = 42\n")
    cell = "%pip install -e .\\nimport local; print('answer', local.answer)"
    host.write(
        "kernel.py",
        f"""
        import sys
        sys.path += {[path for path in sys.path if path.endswith("site-packages")]}
        from IPython.core.interactiveshell import InteractiveShell
        from jupyter_tpu_packages.notebook import load
        shell = InteractiveShell.instance()
        load(shell)
        shell.run_cell("{cell}")
        """,
    )
    printed = host.cell("python kernel.py")
    assert "answer 42" in printed, "it can be imported at once, without a restart"
    printed = host.cell("pip --no-cache-dir install --no-warn-script-location plain")
    assert host.recorded == ["kept", "plain"], printed
    assert said not in printed
    host.write("below.txt", "plain<2\n")
    printed = host.cell("pip install -c below.txt plain")
    assert host.recorded == ["kept", "plain==1.0"], printed
    address = f"{indexes}/own/plain/plain-1.5-py3-none-any.whl"
    printed = host.cell(f"pip install {address}")
    assert host.recorded == ["kept", f"plain @ {address}"], printed
    host.cell("pip install ipykernel")
    host.write("all.txt", "plain==2.0\n")
    before = host.recorded
    for line in ("uv pip sync all.txt", "uv pip install --exact -r all.txt"):
        assert "ipykernel can't be removed: kernels on TPUs need it." in host.cell(line)
    assert host.recorded == before
    host.write("all.txt", "plain==2.0\nipykernel==6.0\n")
    printed = host.cell("uv pip sync all.txt")
    assert host.recorded == ["plain==2.0", "ipykernel==6.0"], printed


def test_options_that_only_pip_has_are_translated_or_named(host):
    printed = host.cell("pip install --report - plain")
    assert printed.strip() == (
        "pip in this environment is uv, which has no option --report. "
        "To get the real one: pip install pip"
    )
    printed = host.cell(
        "pip -q install --ignore-installed --upgrade-strategy only-if-needed --use-pep517 "
        "--no-warn-conflicts --isolated --log x.log plain"
    )
    assert host.has("plain") == "2.0", printed
    assert host.recorded == ["plain"]


def test_two_lines_of_one_package_for_different_markers_both_stay(host):
    both = ["plain==1.0 ; python_version<'3.9'", "plain==2.0 ; python_version>='3.9'"]
    packages.change_packages(host.uv, "default", both, [])
    assert host.recorded == both
    assert packages.merge(both, ["kept"]) == [*both, "kept"]
    assert packages.merge([*both, "kept"], ["Plain"]) == ["kept", "Plain"]


def torch_for_cpu(host: Host, index: str, *others: str) -> str:
    requirements = "\n".join([pytorch.noted_with(index, "torch"), *others, ""])
    lock: str = resolution.resolve(host.uv, "default", requirements)["lock"]
    return lock


def test_pytorch_comes_from_its_own_index_and_what_it_needs_from_the_hosts(host):
    lock = torch_for_cpu(host, f"{host.index}/cpu/")
    assert lock.splitlines() == ["plain==2.0", f"torch==2.3+cpu{NOTE}{host.index}/cpu/"]


def test_a_host_that_does_not_reach_it_gets_the_newest_pytorch_without_cuda_of_its_own(
    host, monkeypatch
):
    monkeypatch.setattr(pytorch, "HOST", "http://127.0.0.1:9")
    monkeypatch.setattr(pytorch, "INDEX", "http://127.0.0.1:9/whl/cpu")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    assert torch_for_cpu(host, pytorch.INDEX, "thing").splitlines() == ["thing==1.0", "torch==2.1"]
    with pytest.raises(HostError) as error:
        torch_for_cpu(host, pytorch.INDEX, "torch>2.1")
    kind, message, hint = error.value.payload
    assert kind == "PACKAGE"
    assert "no PyTorch without CUDA" in message
    assert pytorch.INDEX in hint


def test_what_is_compiled_for_pytorch_is_for_the_cpu_too_unless_it_says_another_index():
    noted = [pytorch.noted_with("https://x.org", each) for each in (
        "torchvision>=0.2", "numpy", f"torch{NOTE}https://y.org", "torch @ https://z.org/torch.whl",
    )]  # fmt: skip
    assert noted == [
        f"torchvision>=0.2{NOTE}https://x.org", "numpy", f"torch{NOTE}https://y.org",
        "torch @ https://z.org/torch.whl",
    ]  # fmt: skip


def test_pips_page_of_links_is_uvs_too(host, monkeypatch):
    monkeypatch.setenv("PIP_FIND_LINKS", "/a https://b.org/c")
    assert uv_environment()["UV_FIND_LINKS"] == "/a,https://b.org/c"
    monkeypatch.setenv("UV_FIND_LINKS", "/own")
    assert uv_environment()["UV_FIND_LINKS"] == "/own"

"""What a host's environment has of this package: jaxkit, and nothing of the server."""

from __future__ import annotations

import base64
import io
import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
import zlib
from pathlib import Path

import jupyter_tpu
from jupyter_tpu.environment.requirements import jaxkit_bundle, jaxkit_sources
from jupyter_tpu.on_host.environments.virtualenv import install_jaxkit

VERSION = "from jupyter_tpu import jaxkit, __version__; print(__version__)"


def test_all_of_it_can_be_imported_without_what_the_server_needs(tmp_path: Path) -> None:
    _, archive = jaxkit_sources()
    assert len(archive) < 150_000, "it is sent over thin lines"
    packed = zlib.decompress(base64.b64decode(archive))
    with zipfile.ZipFile(io.BytesIO(packed)) as sources:
        sources.extractall(tmp_path)
    code = """
import json, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import jupyter_tpu
modules = pkgutil.walk_packages(jupyter_tpu.__path__, "jupyter_tpu.")
names = [name for _, name, _ in modules if __import__(name)]
public = [getattr(jupyter_tpu.jaxkit, name) for name in jupyter_tpu.jaxkit.__all__]
print(json.dumps([jupyter_tpu.__file__, names, [name.partition(".")[0] for name in sys.modules]]))
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    file, names, imported = json.loads(done.stdout)
    assert file == str(tmp_path / "jupyter_tpu" / "__init__.py")
    assert "jupyter_tpu.jaxkit.compile.child" in names
    assert not {"tornado", "asyncssh", "google", "traitlets", "aiohttp"}.intersection(imported)

    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--colors=nocolor", "-c", "%load_ext jupyter_tpu"],
        capture_output=True,
        text=True,
        cwd=tmp_path,  # first on the path
        env={**os.environ, "IPYTHONDIR": str(tmp_path / "ipython")},
    )
    assert (done.stdout + done.stderr).strip() == (
        "UsageError: This kernel runs on a TPU, so its cells need no %tpu. "
        "Load jupyter_tpu in a notebook with a kernel of your own machine."
    )


def test_a_host_that_started_by_itself_has_all_but_the_compiler_and_says_who_brings_it(tmp_path):
    for name, content in jaxkit_bundle(compiles=False).contents.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    code = """
import sys
sys.path.insert(0, sys.argv[1])
from jupyter_tpu import jaxkit
for name in jaxkit.__all__:
    try:
        getattr(jaxkit, name)
    except ModuleNotFoundError as error:
        print(name, error)
print(jaxkit.__file__)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    *missing, file = done.stdout.splitlines()
    assert file.startswith(str(tmp_path))
    assert {line.partition(" ")[0] for line in missing} == {
        "CompileLimits", "CompileReport", "PlanRow", "TypePlan", "cheapest_type", "compile_for",
        "plan",
    }  # fmt: skip
    assert all("`jupyter tpu connect` installs it." in line for line in missing)


def test_an_environment_has_the_version_that_connected_it_last(tmp_path: Path) -> None:
    venv.create(tmp_path, symlinks=True)
    [site] = tmp_path.glob("lib/python3*/site-packages")

    def version() -> str:
        argv = [str(tmp_path / "bin" / "python"), "-I", "-c", VERSION]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()

    digest, archive = jaxkit_sources()
    install_jaxkit(str(tmp_path), digest, archive)
    assert version() == jupyter_tpu.__version__
    before = sorted(site.iterdir())
    install_jaxkit(str(tmp_path), digest, archive)
    assert sorted(site.iterdir()) == before

    (site / "jupyter_tpu_jaxkit_newer.part").mkdir()  # of an installation that was cut off
    newer = io.BytesIO(zlib.decompress(base64.b64decode(archive)))
    with zipfile.ZipFile(newer) as old, zipfile.ZipFile(changed := io.BytesIO(), "w") as new:
        version_file = "jupyter_tpu/_version.py"  # missing in a source tree that was never built
        for name in {*old.namelist()} - {version_file}:
            new.writestr(name, old.read(name))
        new.writestr(version_file, '__version__ = "9.9"\n')
    install_jaxkit(
        str(tmp_path), "newer", base64.b64encode(zlib.compress(changed.getvalue())).decode()
    )
    assert version() == "9.9"
    assert set(before) < set(site.iterdir())  # kernels that run have their modules

    # The user's own comes first, and leaves ours when it goes.
    (site / "jupyter_tpu").mkdir()
    (site / "jupyter_tpu" / "__init__.py").write_text('__version__ = "own"; jaxkit = None')
    assert version() == "own"
    shutil.rmtree(site / "jupyter_tpu")
    assert version() == "9.9"

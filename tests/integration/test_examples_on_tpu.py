"""The JAX notebooks on the kernel of a connected (emulated) TPU, over all its devices.

Run as anybody would on a laptop: ``jupyter execute --kernel_name=… notebook.ipynb``, with the
packages that the notebooks name in the TPU's environment.
"""

from __future__ import annotations

import base64
import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from adoption_server import FOLDERS, LIMIT, Server

ROOT = Path(__file__).parents[2]
#: Of the guide: jaxkit's own needs, and what it uses where it is installed.
PACKAGES = ["matplotlib", "msgspec", "optax"]
DEVICES = 8
NAME = "examples"


@pytest.fixture(scope="module")
def connected(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose user has a TPU of 8 devices with a kernel that has the notebooks' packages."""
    folder = tmp_path_factory.mktemp("examples")
    server = Server(folder, emulator.environment)
    server.start()
    made = {"name": NAME, "type": f"v5litepod-{DEVICES}", "zone": "us-west4-a"}
    server.finish(server.tpu("POST", "tpus", made))
    server.finish(server.tpu("POST", f"tpus/{NAME}/connect", {"packages": PACKAGES}))
    yield server
    server.finish(server.tpu("DELETE", f"tpus/{NAME}?end_kernels=true"))
    server.stop()


def packed() -> str:
    """jaxkit and what it stands on, as a zip file in base64: no release has this very one."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        package = ROOT / "jupyter_tpu"
        for part in ("*.py", "catalog/*.py", "jaxkit/**/*.py"):
            for path in package.glob(part):
                archive.write(path, path.relative_to(ROOT))
    return base64.b64encode(buffer.getvalue()).decode()


FIRST = """
import base64, os, pathlib, platform, sys, tempfile
archive = pathlib.Path(tempfile.mkdtemp(), "jupyter_tpu.zip")
archive.write_bytes(base64.b64decode({packed!r}))
sys.path.append(str(archive))
print(platform.node(), os.getcwd())
"""


def execute(server: Server, name: str, folder: Path) -> Any:
    """The notebook after all its cells have run on the TPU's host."""
    (environment,) = server.tpu("GET", f"tpus/{NAME}/environments")
    notebook = nbformat.read(ROOT / "examples" / f"{name}.ipynb", as_version=4)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(FIRST.format(packed=packed())))
    path = folder / f"{name}.ipynb"
    nbformat.write(notebook, path)
    mine = {variable: str(server.folder / name) for variable, name in FOLDERS.items()}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "jupyter", "execute", "--inplace"),
            *(f"--kernel_name={environment['kernelspec']}", f"--timeout={LIMIT:.0f}", str(path)),
        ],
        env={**os.environ, **mine},
        capture_output=True,
        text=True,
        timeout=2 * LIMIT,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return nbformat.read(path, as_version=4)


def runs_there(server: Server, name: str, folder: Path) -> list[Any]:
    """The outputs of the notebook's own cells."""
    first, *cells = execute(server, name, folder).cells
    host = first["outputs"][0]["text"]
    assert host.startswith("t1v-n-"), host  # the name of a TPU's host
    return [output for cell in cells for output in cell.get("outputs", [])]


@pytest.mark.long
def test_the_guide_runs_on_the_tpus_host_over_all_its_devices(
    connected: Server, tmp_path: Path
) -> None:
    outputs = runs_there(connected, "jax-on-tpu", tmp_path)
    assert f"cpu {DEVICES} devices" in outputs[0]["text"]  # the emulator's are simulated
    pages = "".join(output.get("data", {}).get("text/html", "") for output in outputs)
    assert "<svg" in pages
    assert "shape without padding" in pages


@pytest.mark.parametrize(
    "name",
    [
        "wave-equation",
        pytest.param("jax-tour", marks=pytest.mark.long),
        pytest.param("lorenz-ode", marks=pytest.mark.long),
        pytest.param("spmd-cookbook", marks=pytest.mark.long),
    ],
)
def test_a_notebook_draws_on_the_tpus_host_what_all_its_devices_computed(
    name: str, connected: Server, tmp_path: Path
) -> None:
    outputs = runs_there(connected, name, tmp_path)
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert any(str(DEVICES) in output.get("text", "").split() for output in outputs)

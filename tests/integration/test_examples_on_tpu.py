"""The example notebooks on a default connection of an (emulated) TPU, over all its devices.

test_story_first_notebook.py and the browser's test run first-steps.ipynb so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from adoption_server import FOLDERS, LIMIT, Server
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
DEVICES = 8
NAME = "examples"
#: Before a notebook's own cells.
FIRST = """
import os, platform
# Half the time: they compile much and calculate little.
os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_backend_optimization_level=0"
print(platform.node())
"""


@pytest.fixture(scope="module")
def outputs(
    emulator: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], list[Any]]]:
    """``outputs(name)``: of a notebook's cells, run on a TPU that was connected without options."""
    server = Server(tmp_path_factory.mktemp("examples"), emulator.environment)
    server.start()
    made = {"name": NAME, "type": f"v5litepod-{DEVICES}", "zone": "us-west4-a"}
    server.finish(server.tpu("POST", "tpus", made))
    server.finish(server.tpu("POST", f"tpus/{NAME}/connect", {}))
    [environment] = server.tpu("GET", f"tpus/{NAME}/environments")

    def outputs(name: str) -> list[Any]:
        notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
        notebook.cells.insert(0, nbformat.v4.new_code_cell(FIRST))
        kernel = environment["kernelspec"]
        NotebookClient(notebook, timeout=int(LIMIT), kernel_name=kernel).execute()
        first, *cells = notebook.cells
        assert first.outputs[0]["text"].startswith("t1v-n-")  # the name of a TPU's host
        return [output for cell in cells for output in cell.get("outputs", [])]

    with pytest.MonkeyPatch.context() as patch:
        for variable in ("JUPYTER_TPU_EMULATOR", *FOLDERS):
            patch.setenv(variable, server.environment[variable])
        yield outputs
    server.finish(server.tpu("DELETE", f"tpus/{NAME}?end_kernels=true"))
    server.stop()


def test_the_guide_and_its_jaxkit_run_on_the_tpus_host_over_all_its_devices(
    outputs: Callable[[str], list[Any]],
) -> None:
    found = outputs("jax-on-tpu")
    assert f"cpu {DEVICES} devices" in found[0]["text"]  # the emulator's are simulated
    pages = "".join(output.get("data", {}).get("text/html", "") for output in found)
    assert "<svg" in pages
    assert "shape without padding" in pages


#: `make test` takes the notebook that shards in each way, and a short one.
LIKE_OTHERS = [pytest.param(name, marks=pytest.mark.long) for name in ("jax-tour", "lorenz-ode")]


@pytest.mark.parametrize("name", ["wave-equation", "spmd-cookbook", *LIKE_OTHERS])
def test_a_notebook_draws_on_the_tpus_host_what_all_its_devices_computed(
    name: str, outputs: Callable[[str], list[Any]]
) -> None:
    found = outputs(name)
    assert any("image/png" in output.get("data", {}) for output in found)
    assert any(str(DEVICES) in output.get("text", "").split() for output in found)

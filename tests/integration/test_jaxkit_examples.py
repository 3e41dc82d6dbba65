"""The JAX notebooks run from top to bottom, on eight simulated devices and on one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
PLAIN = ("jax-tour", "spmd-cookbook", "lorenz-ode", "wave-equation")
GUIDE = "jax-on-tpu"

pytest.importorskip("matplotlib")


def run(name: str, devices: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    for variable, value in {
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(devices),
        # With fewer threads than meetings of devices the CPU backend can wait for ever.
        "NPROC": "32",
        "MPLCONFIGDIR": str(folder),
    }.items():
        monkeypatch.setenv(variable, value)
    return NotebookClient(notebook, timeout=150, kernel_name="python3").execute()


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


@pytest.mark.parametrize("name", PLAIN)
def test_a_notebook_runs_on_all_devices_and_shows_pictures(name, tmp_path, monkeypatch) -> None:
    done = run(name, 8, tmp_path, monkeypatch)
    assert any("image/png" in output.get("data", {}) for output in outputs(done))
    assert any("8" in output.get("text", "") for output in outputs(done))


@pytest.mark.long
@pytest.mark.parametrize("name", [*PLAIN, GUIDE])
def test_a_notebook_runs_on_a_single_device_too(name, tmp_path, monkeypatch) -> None:
    run(name, 1, tmp_path, monkeypatch)


def test_the_guides_recipes_all_hold(tmp_path, monkeypatch) -> None:
    done = run(GUIDE, 8, tmp_path, monkeypatch)
    pages = "".join(output.get("data", {}).get("text/html", "") for output in outputs(done))
    assert "<svg" in pages
    assert "nothing wasted" in pages


#: The JAX sections of the guides: English 6–9, Chinese 7, the early draft 4–6 (and 3, 1.2), the
#: preview's notes. Each is a recipe of the notebook or listed with the reason for leaving it out.
SECTIONS = {
    "EN": "6.1 6.2 6.3 6.4 6.4.1 6.4.2 6.4.3 6.5 6.6 6.7 7.1.1 7.2.1 7.2.2 7.2.3 7.2.4 7.2.5 7.2.6 "
    "7.2.7 8.1 8.2 9.1.1 9.1.2 9.1.3 9.1.4 9.2.1 9.2.2 9.2.3 9.2.4 9.2.5",
    "ZH": "7.1 7.2 7.3 7.4 7.5 7.6 7.7 7.8 9.5",
    "draft": "1.2 3.1 3.2 4.1 4.2 4.3 4.4 4.5 4.6 4.7 4.8 4.9 5.1 5.2 6.1 6.2 6.3",
    "preview": "padding bfloat16 config",
}
ROWS = (
    "jax.tree.map", "jax.config", "colab_tpu", "xmap", "DeviceArray", "a.device()",
    "device_put_replicated", "device_put_sharded", "pmap", "PRNGKey", "num=9", "default_device",
    "indexing", "Precision.HIGHEST", "to_torch", "spawn", "multi_transform", "set_to_zero",
    "softmax_cross_entropy_with_integer_labels", "nn.Dense",
)  # fmt: skip


def test_no_section_of_the_guides_and_no_row_of_the_table_is_forgotten() -> None:
    notebook = nbformat.read(EXAMPLES / f"{GUIDE}.ipynb", as_version=4)
    text = "\n".join(cell.source for cell in notebook.cells)
    for guide, sections in SECTIONS.items():
        for section in sections.split():
            assert section in text, f"{guide} {section}"
    for row in ROWS:
        assert row.lower() in text.lower(), row
    assert text.count("real TPU") >= 3


@pytest.mark.parametrize("name", [*PLAIN, GUIDE])
def test_notebooks_are_stored_without_outputs_and_say_what_differs_on_a_tpu(name) -> None:
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert outputs(notebook) == []
    assert all(cell.get("execution_count") is None for cell in notebook.cells)
    assert "on a real TPU" in "\n".join(cell.source for cell in notebook.cells)

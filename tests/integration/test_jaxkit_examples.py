"""The JAX notebooks on this computer: the guide with all packages that it can use.

test_story_first_notebook.py runs them over eight devices.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[2] / "examples"
PLAIN = ("jax-tour", "spmd-cookbook", "lorenz-ode", "wave-equation")
GUIDE = "jax-on-tpu"


def run(name: str, devices: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("matplotlib")
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    for variable, value in {
        "JAX_PLATFORMS": "cpu",
        "JAX_NUM_CPU_DEVICES": str(devices),
        # With fewer threads than meetings of devices the CPU backend can wait for ever.
        "NPROC": "32",
        # Half the time: they compile much and calculate little.
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        "MPLCONFIGDIR": str(folder),
    }.items():
        monkeypatch.setenv(variable, value)
    return NotebookClient(notebook, timeout=150, kernel_name="python3").execute()


def outputs(notebook: Any) -> list[Any]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


@pytest.mark.long
@pytest.mark.parametrize("name", [*PLAIN, GUIDE])
def test_a_notebook_runs_on_a_single_device_too(name, tmp_path, monkeypatch) -> None:
    done = run(name, 1, tmp_path, monkeypatch)
    cells = [cell for cell in done.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == [*range(1, len(cells) + 1)]
    assert "error" not in {output.output_type for output in outputs(done)}
    assert outputs(done)


@pytest.mark.long  # without torch and flax: test_story_first_notebook.py
def test_the_guides_recipes_all_hold(tmp_path, monkeypatch) -> None:
    done = run(GUIDE, 8, tmp_path, monkeypatch)
    pages = "".join(output.get("data", {}).get("text/html", "") for output in outputs(done))
    assert "<svg" in pages
    assert "shape without padding" in pages


#: The JAX sections of the guides, and those on TPUs between them.
SECTIONS = {
    "EN": "6.1 6.2 6.3 6.4 6.4.1 6.4.2 6.4.3 6.5 6.6 6.7 7.1.1 7.1.2 7.1.3 7.1.4 7.1.5 7.1.6 7.2.1 "
    "7.2.2 7.2.3 7.2.4 7.2.5 7.2.6 7.2.7 8.1 8.2 9.1.1 9.1.2 9.1.3 9.1.4 9.2.1 9.2.2 9.2.3 9.2.4 "
    "9.2.5",
    "ZH": "6.1 6.2 7.1 7.2 7.3 7.4 7.5 7.6 7.7 7.8 8.1 8.2 8.3 8.4 9.1 9.2 9.3 9.4 9.5",
    "draft": "1.2 3.1 3.2 4.1 4.2 4.3 4.4 4.5 4.6 4.7 4.8 4.9 5.1 5.2 6.1 6.2 6.3",
    "preview": "padding bfloat16 pmap-cookbook lorentz wave demo gce",
}
#: What the guides wrote that is written otherwise today, or works by now.
RECIPES = (
    "jax.tree_map", "jax.config", "colab_tpu", "xmap", "DeviceArray", "a.device()",
    "device_put_replicated", "device_put_sharded", "pmap", "PRNGKey", "num=9", "default_device",
    "numpy_array[jax_array]", "Precision.HIGHEST", "torch", "fork", "multi_transform",
    "set_to_zero", "cross-entropy", "Dense",
)  # fmt: skip


def tables(notebook: Any, heading: str) -> list[list[str]]:
    """The rows of the table below a heading."""
    (cell,) = [cell for cell in notebook.cells if heading in cell.source.splitlines()]
    lines = [line for line in cell.source.splitlines() if line.startswith("|")]
    return [[part.strip() for part in line.strip("|").split(" | ")] for line in lines[2:]]


def parts(notebook: Any) -> dict[str, str]:
    """The code below each heading, by the heading's anchor."""
    sources: dict[str, str] = {}
    anchor = ""
    for cell in notebook.cells:
        if cell.cell_type == "code":
            sources[anchor] += cell.source
        elif heads := re.findall(r"^#+ (.*)$", cell.source, re.MULTILINE):
            anchor = heads[-1].replace(" ", "-")
            sources[anchor] = ""
    return sources


def test_every_section_of_the_guides_is_a_tested_part_or_left_out_with_the_reason() -> None:
    notebook = nbformat.read(EXAMPLES / f"{GUIDE}.ipynb", as_version=4)
    recipes = tables(notebook, "### The recipes")
    for recipe in RECIPES:
        assert sum(recipe in row[0] for row in recipes) == 1, recipe
    rows = tables(notebook, "### The guides' sections")
    listed = [
        (guide, section)
        for row in rows
        for guide, sections in (named.split(" ", 1) for named in row[0].split(" · "))
        for section in sections.split(", ")
    ]
    assert sorted(listed) == sorted(
        (guide, section) for guide, all in SECTIONS.items() for section in all.split()
    )
    code = parts(notebook)
    for *_, here in [*recipes, *rows]:
        links = re.findall(r"\]\(([^)]+)\)", here)
        assert links or re.match(r"left out: .{10}", here), here
        for link in links:
            if link.startswith("#"):
                assert re.search(r"\bassert\b", code[link[1:]]), link
            else:
                assert link.removesuffix(".ipynb") in PLAIN
    # Each of the five parts says what differs.
    text = "\n".join(cell.source for cell in notebook.cells)
    for number in range(1, 6):
        of_part = text.split(f"\n## {number}. ")[1].split(f"\n## {number + 1}. ")[0]
        assert "**On a real TPU**" in of_part, number


@pytest.mark.parametrize("name", [*PLAIN, GUIDE])
def test_notebooks_are_stored_without_outputs_and_say_what_differs_on_a_tpu(name) -> None:
    notebook = nbformat.read(EXAMPLES / f"{name}.ipynb", as_version=4)
    nbformat.validate(notebook)
    assert outputs(notebook) == []
    assert all(cell.get("execution_count") is None for cell in notebook.cells)
    assert "on a real TPU" in "\n".join(cell.source for cell in notebook.cells)

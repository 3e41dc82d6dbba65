"""``%%tpu compile`` in a real local kernel: no TPU, no server, the TPU's own compiler."""

import os
import re
from collections.abc import Iterator

import pytest
from cli_shell import LIMIT
from test_magics_notebook import Notebook


@pytest.fixture(scope="module")
def notebook() -> Iterator[Notebook]:
    # As a user's: jax looks for a TPU, and what libtpu writes is an output of the cell, which
    # ipykernel does not capture within pytest.
    hidden = ("JAX_PLATFORMS", "PYTEST_CURRENT_TEST")
    made = Notebook({key: value for key, value in os.environ.items() if key not in hidden})
    yield made
    made.close()


def value(notebook: Notebook, code: str) -> str:
    """The text of what a cell evaluates to."""
    (result,) = (output for output in notebook.run(code) if output["type"] == "execute_result")
    return str(result["data"]["text/plain"])


def test_a_cell_is_compiled_with_the_notebooks_names_and_its_report_is_the_result(notebook):
    pytest.importorskip("libtpu", reason="pip install 'jupyter-tpu[compile]'")
    notebook.run(
        "import jax\nimport jax.numpy as jnp\n"
        "from jax.sharding import PartitionSpec as P\nwidth = 512"
    )
    outputs = notebook.run(
        '%%tpu compile v5litepod-8 mesh={"data":8}, in_shardings=(P("data"), None)\n'
        "def step(x, w):\n"
        "    return jnp.sum(x @ w)\n"
        "\n"
        "step, (8192, width), (width, 1024)"
    )
    (result,) = outputs  # and nothing on stderr, which would read as a failure
    assert result["type"] == "execute_result"
    assert result["data"]["text/html"].startswith("<p>Fits v5litepod-8: needs")
    # What the cell defines is there afterwards, and so is the report.
    number = result["execution_count"]
    assert (
        value(notebook, f"Out[{number}].devices_used, step.__name__, width") == "(8, 'step', 512)"
    )
    # 8192 / 8 rows of float32 on each device, and w on all.
    assert value(notebook, f"Out[{number}].argument_bytes") == str((1024 + 1024) * 512 * 4)
    notebook.run(
        "%%tpu compile v5litepod-8\n"
        "def wide(x):\n"
        "    return jnp.sort(x @ x, axis=0)[::-1] @ x\n"
        "wide, (2048, 2048)"
    )
    sources = value(notebook, "sorted({buffer.source for buffer in _.buffers if buffer.source})")
    assert re.findall(r"In\[\d+\]:(\d+)", sources) == ["3"], sources  # as the page counts them


def test_mistakes_are_reported_in_one_sentence(notebook):
    cell = "def f(x):\n    return x\nf, (8,)"
    for code, word in (
        (f"%%tpu compile\n{cell}", "accelerator type"),
        ("%%tpu compile v5litepod-8\nx = 1", "last line"),
        ("%%tpu compile v5litepod-8\n1, 2", "last line"),
        (f"%%tpu compile v5litepod-8 color=1\n{cell}", "no option color"),
        (f"%%tpu compile v5litepod-8 ), print(1\n{cell}", "options as in a call"),
        (f"%%tpu compile v5e-7\n{cell}", "v5litepod-8"),
    ):
        assert word in notebook.complaint(code), code


def test_where_libtpu_is_missing_one_sentence_says_how_to_get_it(notebook):
    notebook.run("import sys\nsys.modules['libtpu'] = None  # as if it were not installed")
    output = notebook.complaint("%%tpu compile v5litepod-8\ndef f(x):\n    return x\nf, (8,)")
    notebook.run("del sys.modules['libtpu']")
    assert "needs libtpu, which is not installed." in output
    assert "jupyter-tpu[compile]" in output or "Linux" in output


def test_an_error_in_the_cell_is_the_cells_own(notebook):
    (error,) = notebook.run("%%tpu compile v5litepod-8\n\n1 / 0, (8,)")
    assert error["ename"] == "ZeroDivisionError"


def test_a_cell_for_a_tpu_still_takes_its_name_from_a_variable(notebook):
    notebook.run("name = 'nowhere'")
    assert "nowhere has no kernel" in notebook.complaint("%%tpu {name}\n1")


def test_help_is_printed(notebook):
    (output,) = notebook.run("%%tpu compile --help")
    assert output["text"].startswith("Usage: %%tpu compile TYPE")


def test_types_are_completed(notebook):
    code = "%%tpu compile v5litepod-"
    reply = notebook.client.complete(code, len(code), reply=True, timeout=LIMIT)
    assert "v5litepod-8" in reply["content"]["matches"]

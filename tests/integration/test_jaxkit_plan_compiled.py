"""The planner with libtpu's own compiler: what it counts, and the order it gives."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from jupyter_tpu import jaxkit
from jupyter_tpu.cli import main
from jupyter_tpu.errors import InvalidInput

pytest.importorskip("libtpu", reason="pip install 'jupyter-tpu[compile]'")
pytest.importorskip("flatbuffers", reason="pip install 'jupyter-tpu[compile]'")

jax.config.update("jax_platforms", "cpu")

LAYERS, SIZE = 2, 1024
ARGS = (((LAYERS, SIZE, SIZE), "bfloat16"), ((SIZE, SIZE), "bfloat16"))
LIMITS = jaxkit.CompileLimits(seconds=150)


def layers(weights: Any, x: Any) -> Any:
    return jax.lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, weights)[0]


def step(weights: Any, x: Any) -> Any:
    return jax.grad(lambda weights: jnp.mean(layers(weights, x).astype(jnp.float32) ** 2))(weights)


def too_large(weights: Any, x: Any) -> Any:
    return layers(weights, x) @ jnp.zeros((SIZE, 1 << 24), jnp.bfloat16)


def test_layers_in_a_loop_count_in_full_and_the_cheapest_type_comes_first() -> None:
    seen: list[jaxkit.PlanRow] = []
    plan = jaxkit.plan(
        step,
        ARGS,
        types=["v5litepod-1", "v6e-1"],
        limits=LIMITS,
        on_row=seen.append,
    )
    assert {row.type for row in seen} == {row.type for row in plan.rows}
    for row in plan.rows:
        # Three products a layer: forward, and two gradients. The rest is elementwise.
        assert row.flops == pytest.approx(3 * LAYERS * 2 * SIZE**3, rel=0.01)
        assert row.sent_bytes == 0
        assert row.time is not None
        assert row.time.bound == "compute"
    # A v6e chip has 4.7 times the FLOP/s of a v5e one, for 2.25 times its price.
    assert [row.type for row in plan.rows] == ["v6e-1", "v5litepod-1"]


@pytest.mark.usefixtures("own_data")  # where nothing was compiled before
def test_a_type_that_is_too_small_or_past_the_time_is_a_row_with_the_reason() -> None:
    plan = jaxkit.plan(too_large, ARGS, types=["v5e-1"], limits=LIMITS)
    (row,) = plan.rows
    assert row.fits is False
    assert row.time is None
    assert row.reason.startswith("Does not fit.")
    assert plan.best is None
    late = jaxkit.plan(step, ARGS, types=["v5e"], seconds=0.5)
    assert {row.type for row in late.rows} == {"v5litepod-1", "v5litepod-4", "v5litepod-8"}
    assert late.partial
    assert all("Not compiled" in row.reason for row in late.rows)
    cut = jaxkit.plan(step, ARGS, types=["v5e-1"], seconds=1.2)
    assert cut.partial
    assert cut.rows[0].fits is None


@pytest.mark.long  # over REST: test_server_compile.py
def test_meshes_of_axes_are_compared_with_shardings_by_simple_rules() -> None:
    weights, batch = ((512, 512), "bfloat16"), ((64, 512), "bfloat16")
    plan = jaxkit.plan(
        lambda w, x: x @ w,
        (weights, batch),
        types=["v5e-4"],
        axes=("data", "tensor"),
        limits=LIMITS,
    )
    rows = {row.mesh_text: row for row in plan.rows}
    assert rows.keys() == {"data=4", "tensor=4", "data=2 tensor=2"}
    for row in rows.values():
        assert row.fits, row.reason
        assert row.topology == "2x2"
        assert row.flops == pytest.approx(2 * 64 * 512 * 512 / 4, rel=0.01)  # of a device
    with pytest.raises(InvalidInput, match="not both"):
        jaxkit.plan(step, ARGS, types=["v5e-4"], axes=["data"], mesh={"data": -1})


def test_types_that_do_not_exist_are_refused_before_anything_is_compiled() -> None:
    with pytest.raises(InvalidInput, match="v5litepod-9"):
        jaxkit.plan(step, ARGS, types=["v5litepod-9"])
    with pytest.raises(InvalidInput, match="no types"):
        jaxkit.plan(step, ARGS, types=[])
    with pytest.raises(InvalidInput, match="Unknown tier"):
        jaxkit.plan(step, ARGS, types=["v5e-1"], tier="cheap")  # type: ignore[arg-type]


def test_the_command_plans_a_function_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    file = tmp_path / "planned_step.py"
    file.write_text(
        "def step(w, x):\n    return x @ w\n\n"
        'step_args = ((1024, 1024), "bfloat16"), ((64, 1024), "bfloat16")\n'
    )
    plot = tmp_path / "plan.svg"
    words = ["plan", f"{file}:step", "--type", "v5litepod-4", "--mesh", "data=-1"]
    assert main([*words, "--shard", "data", "--json", "--plot", str(plot)]) == 0
    assert "v5litepod-4" in plot.read_text()
    out, errors = capsys.readouterr()
    (row,) = json.loads(out)["rows"]
    assert row["fits"]
    assert row["flops"] == pytest.approx(2 * 64 * 1024 * 1024 / 4, rel=0.01)  # of a device
    assert row["usd_per_1000_steps"] > 0
    assert errors == "v5litepod-4: compiled\n"

"""The planner's prediction for a training run whose result MaxText has published.

It compiles one program, which takes a minute or two of processor time. All of them:
benchmarks/planner.py. What their programs do is in unit/test_jaxkit_plan.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("libtpu", reason="pip install 'jupyter-tpu[compile]'")
pytest.importorskip("flatbuffers", reason="pip install 'jupyter-tpu[compile]'")


@pytest.mark.long
def test_a_rebuilt_run_is_predicted_within_a_quarter(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    monkeypatch.setitem(sys.modules, "_maxtext", None)
    monkeypatch.delitem(sys.modules, "_maxtext")
    import _maxtext
    import planner

    monkeypatch.setattr(planner, "_COMPILED", tmp_path)
    config = next(one for one in _maxtext.CONFIGS if one.name == "16B")
    planner.compiled(config, 3000.0)
    made = planner.cached(config)  # as `--from-cache` reads it
    assert made is not None
    assert made.batch == config.batch
    result = planner.judge(config, made)
    assert result.error is not None, result.reason
    assert abs(result.error) <= planner.WITHIN
    assert result.least is not None
    assert result.most is not None
    assert result.least < result.published < result.most

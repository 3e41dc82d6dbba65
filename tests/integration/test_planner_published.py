"""The planner's prediction for training runs whose results MaxText has published.

All of them: benchmarks/planner.py, which takes an hour.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("libtpu", reason="pip install 'jupyter-tpu[compile]'")
pytest.importorskip("flatbuffers", reason="pip install 'jupyter-tpu[compile]'")


@pytest.mark.long
def test_a_rebuilt_run_is_predicted_within_a_quarter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    monkeypatch.setitem(sys.modules, "_maxtext", None)
    monkeypatch.delitem(sys.modules, "_maxtext")
    import _maxtext
    import planner

    config = next(one for one in _maxtext.CONFIGS if one.name == "16B")
    result = planner.judge(config, planner.compiled(config, 1500.0))
    assert result.error is not None, result.reason
    assert abs(result.error) <= planner.WITHIN
    assert result.least is not None
    assert result.most is not None
    assert result.least < result.published < result.most

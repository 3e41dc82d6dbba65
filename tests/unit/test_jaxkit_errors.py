"""Wrong arguments are ``ValueError``s, as users of Python libraries expect, and stay so."""

from __future__ import annotations

import pickle

import pytest

from jupyter_tpu import jaxkit
from jupyter_tpu.errors import InvalidInput, Reason, TPUError, error_for
from jupyter_tpu.jaxkit.compile import compiler
from jupyter_tpu.jaxkit.compile.report import CompileReport
from jupyter_tpu.jaxkit.sharding.axes import DoesNotDivide


def test_a_wrong_argument_is_a_value_error_and_a_tpu_error() -> None:
    with pytest.raises(ValueError, match="not -1") as caught:
        jaxkit.padded_bytes((-1,))
    assert isinstance(caught.value, TPUError)
    assert caught.value.reason is Reason.INVALID


@pytest.mark.parametrize("kind", [InvalidInput, DoesNotDivide])
def test_it_is_the_same_after_pickling(kind: type[InvalidInput]) -> None:
    error = pickle.loads(pickle.dumps(kind("Not so.", "Do this.")))
    assert type(error) is kind
    assert isinstance(error, ValueError)
    assert (error.message, error.hint, error.reason) == ("Not so.", "Do this.", Reason.INVALID)
    assert str(error) == "Not so. Do this."


def test_the_reason_that_another_process_reports_decides_the_type() -> None:
    assert isinstance(error_for("m", Reason.INVALID, "h"), ValueError)
    assert not isinstance(error_for("m", Reason.TIMEOUT), ValueError)


def test_a_need_that_the_compiler_does_not_know_is_not_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    report = CompileReport(
        type="v6e-1",
        topology="v6e:1x1",
        devices=1,
        devices_used=1,
        hosts=1,
        fits=False,
        hbm_bytes=31 << 30,
    )
    monkeypatch.setattr(compiler, "compile_for", lambda *_, **__: report)
    with pytest.raises(InvalidInput, match=r"nearest is v6e-1: a device has 31\.00 GiB\."):
        jaxkit.cheapest_type(lambda x: x, (8,), types=["v6e-1"])

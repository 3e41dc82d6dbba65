"""`@tpu.run`: what a function captures and can't be sent is named before anything is created."""

import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from jupyter_tpu import tpu
from jupyter_tpu.errors import InvalidInput


def message(function: Callable[..., Any]) -> str:
    with pytest.raises(InvalidInput) as refused:
        tpu.run(type="v5litepod-1", max_cost=1)(function)()
    assert "Make it inside the function" in refused.value.hint
    return refused.value.message


def test_a_lock_and_an_open_file_are_named(tmp_path):
    lock = threading.Lock()

    def locked() -> int:
        with lock:
            return 1

    assert message(locked).startswith("locked uses lock (lock), which can't be sent to a TPU")
    path = tmp_path / "log.txt"
    path.write_text("text")
    for mode, kind in (("r", "TextIOWrapper"), ("w", "TextIOWrapper"), ("rb", "BufferedReader")):
        with path.open(mode) as log:

            def logged() -> int:
                return int(log.fileno())

            said = message(logged)
        assert said.startswith(f"logged uses log ({kind}), which can't be sent to a TPU")


def test_what_can_be_sent_is_not_refused():
    scale = 2.0

    def scaled(value: float) -> float:
        return scale * value

    for function in (scaled, functools.partial(scaled, 3.0), len):
        tpu._require_sendable(function)

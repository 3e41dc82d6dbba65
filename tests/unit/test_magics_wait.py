"""What ``%tpu`` shows of an operation's end, and of an interrupt."""

from typing import cast

import click
import pytest

from jupyter_tpu.fleet.models import Operation
from jupyter_tpu.magics.kernels import NotebookKernels
from jupyter_tpu.magics.magic import _run
from jupyter_tpu.magics.show import _line_of


@pytest.mark.parametrize("state", ["done", "failed", "cancelled"])
def test_the_end_of_an_operation_is_a_line_and_no_share(state):
    operation = Operation(id="1", kind="connect", tpu="t", message="x", progress=0.5)
    assert _line_of(operation) == (operation, "t: x")
    operation.state, operation.progress = state, 1.0
    shown, line = _line_of(operation)
    assert (shown.progress, line) == (None, f"Connecting t: {state}")


def test_an_interrupted_command_is_one_sentence_without_our_internals():
    @click.command("%tpu")
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(Exception, match=r"^Interrupted\. `%tpu list` shows") as caught:
        _run(interrupted, "", cast(NotebookKernels, None))
    assert caught.value._render_traceback_() == [str(caught.value)]

"""The process that compiled a program compiles the next one, and is never in the way."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import jax
import pytest
from children import children
from waiting import until

from jupyter_tpu import jaxkit
from jupyter_tpu.errors import InvalidInput
from jupyter_tpu.jaxkit.compile.compiler import IDLE, compile_code
from jupyter_tpu.jaxkit.compile.models import CompileRequest
from jupyter_tpu.jaxkit.processes import idle

jax.config.update("jax_platforms", "cpu")
pytest.importorskip("libtpu", reason="pip install 'jupyter-tpu[compile]'")
pytest.importorskip("flatbuffers", reason="pip install 'jupyter-tpu[compile]'")


def compilers() -> list[int]:
    return [child.pid for child in children("jupyter_tpu.jaxkit.compile.child")]


def end_idle() -> None:
    if process := IDLE.take():
        process.end()


@pytest.fixture(autouse=True)
def no_compiler(own_data: Any) -> Iterator[None]:
    """No report is kept from another test, and no process before and after."""
    end_idle()
    yield
    end_idle()
    assert compilers() == []


def product(x: Any) -> Any:
    return x @ x.T


def needed(rows: int) -> int:
    report = jaxkit.compile_for("v5litepod-1", product, (rows, 512))
    assert not report.cached
    assert report.buffers
    return report.needed_bytes or 0


async def test_one_process_compiles_one_program_after_the_other(own_data):
    large = needed(2048)
    (first,) = compilers()
    small = needed(256)
    assert compilers() == [first]
    assert small < large
    with pytest.raises(InvalidInput, match="VMEM"):
        jaxkit.compile_for("v5litepod-1", too_much_vmem, (4096, 4096))
    assert needed(512) > small
    assert compilers() == [first]
    # Code may change the process that it runs in.
    code = "import jax.numpy as jnp\njnp.sin = None\ndef fn(x):\n    return x + 1\n"
    await compile_code(
        CompileRequest(code=code, function="fn", type="v5litepod-1", arguments=[{"shape": [8]}])  # type: ignore[list-item]
    )
    assert compilers() == [first]
    # The same as by a process of its own.
    end_idle()
    for report in (own_data / "compiled").glob("*.json"):
        report.unlink()
    assert needed(256) == small


def too_much_vmem(x: Any) -> Any:
    from jax.experimental import pallas as pl

    def kernel(x_ref: Any, y_ref: Any) -> None:
        y_ref[...] = x_ref[...] * 2

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def test_one_that_was_killed_or_has_an_old_environment_is_not_asked(monkeypatch):
    needed(256)
    (first,) = compilers()
    os.kill(first, signal.SIGKILL)
    needed(512)
    (second,) = compilers()
    monkeypatch.setenv("SOME_SETTING", "1")
    needed(1024)
    (third,) = compilers()
    assert len({first, second, third}) == 3


def test_it_ends_when_nobody_has_asked_for_a_while(monkeypatch):
    monkeypatch.setattr(idle, "_KEPT_SECONDS", 0.2)
    needed(256)
    until(lambda: compilers() == [])


def test_it_ends_with_its_owner_and_leaves_no_folder(own_data, tmp_path):
    program = (
        "from jupyter_tpu import jaxkit\n"
        "jaxkit.compile_for('v5litepod-1', lambda x: x @ x.T, (256, 512))\n"
        "import os, psutil\n"
        "if os.fork():\n"  # as subprocesses of some libraries do
        "    os.wait()\n"
        "    print(os.listdir(os.environ['TMPDIR']), len(psutil.Process().children()))\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert "'jupyter-tpu-" in ended.stdout
    assert ended.stdout.endswith(" 1\n")  # the fork has not ended it
    assert list(tmp_path.glob("jupyter-tpu-*")) == []

"""Traces and memory profiles of a kernel while it runs a cell: real JAX, agent and host program."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from jupyter_client.manager import KernelManager
from local_host import LocalHost
from local_kernels import Notebook, local_host, printed
from ports import free_port

from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet.jobs import host_profiles as profiles
from jupyter_tpu.fleet.jobs.host_profiles import TracedKernel
from jupyter_tpu.fleet.jobs.pprof import read_memory_profile
from jupyter_tpu.links import core_thread

WORK = """\
import time, jax, jax.numpy as jnp
jax.profiler.start_server({port})
def make_weights():
    return jnp.ones((256, 1024))
weights = make_weights()
step = jax.jit(lambda a: jnp.tanh(a @ a.T) @ a)
print("begun", flush=True)
while True:
    step(weights).block_until_ready()
    time.sleep(0.02)
"""


@pytest.fixture(scope="module")
def world() -> Iterator[tuple[LocalHost, KernelManager]]:
    with local_host("profiles") as (host, make):
        manager = make()
        manager.start_kernel(env={})
        yield host, manager
        manager.shutdown_kernel(now=True)


@pytest.mark.long
def test_a_running_cell_is_traced_and_its_memory_shown_by_its_lines(world):
    host, manager = world
    kernel = TracedKernel(
        id=manager.kernel_id, environment="default", python=sys.executable, name="host-1"
    )
    port = free_port()

    def trace(*kernels: TracedKernel, port: tuple[int, str] | None = None):
        called = profiles.trace(
            host,
            kernels,
            port,
            "~/traces/.collecting-run",
            seconds=0.3,
            start=time.time(),
            lead=0.0,
            log=lambda line: None,
        )
        return core_thread().wait(called, 60)

    def memory() -> list[profiles.KernelMemory | TPUError]:
        return core_thread().wait(profiles.profile_memory(host, [kernel]), 60)

    notebook = Notebook(manager)
    assert notebook.text("1") == ""
    # JAX is not started by that: it would take the chips.
    [idle] = memory()
    assert isinstance(idle, TPUError)
    assert (idle.reason, "has not used JAX" in idle.message) == (Reason.CONFLICT, True)
    [idle] = trace(kernel)
    assert idle.reason is Reason.CONFLICT
    assert not (host.home / "traces/.collecting-run").exists()
    assert notebook.text("import sys; print('jax' in sys.modules)") == "False\n"

    cell = notebook.client.execute(WORK.format(port=port))
    seen = notebook.until_output(cell, "begun")
    gone = TracedKernel(id="gone", environment="default", python="", name="host-1-gone")
    other = free_port()
    done, missing, refused = trace(kernel, gone, port=(other, "other"))
    assert isinstance(done, profiles.WrittenTrace)
    assert done.ended - done.began >= 0.3
    assert done.path == str(host.home / "traces/.collecting-run/host-1.xplane.pb")
    content = Path(done.path).read_bytes()
    assert len(content) == done.bytes
    assert b"jit__lambda" in content
    assert (missing.reason, missing.message) == (Reason.NOT_FOUND, "The kernel has ended.")
    assert f"jax.profiler.start_server({other})" in refused.hint
    # The same program through its own server, as a job's is.
    [served] = trace(port=(port, "host-1-port"))
    assert isinstance(served, profiles.WrittenTrace), served
    assert b"jit__lambda" in Path(served.path).read_bytes()
    # xprof finds the run when all traces are there, and another one of its name stays.
    runs = host.home / "traces/plugins/profile"
    assert not runs.exists()
    for name in ("run", "run_2"):
        finished = profiles.finish_run(
            host, "~/traces/.collecting-run", "~/traces/plugins/profile/run"
        )
        assert core_thread().wait(finished, 60) == str(runs / name)
        (host.home / "traces/.collecting-run").mkdir()
        (host.home / "traces/.collecting-run/x").touch()
    assert sorted(path.name for path in (runs / "run").iterdir()) == [
        "host-1-port.xplane.pb", "host-1.xplane.pb",
    ]  # fmt: skip
    assert not list((host.home / ".jupyter-tpu/profiles").iterdir())

    [kernel_memory] = memory()
    assert isinstance(kernel_memory, profiles.KernelMemory)
    profile = read_memory_profile(kernel_memory.data, kernel_memory.cells)
    [line] = [shown for shown in profile.lines if shown.line == "In[3]:5"]
    assert [(call.line, call.function) for call in line.calls] == [("In[3]:4", "make_weights")]
    assert line.bytes >= 256 * 1024 * 4
    assert list(profile.devices) == ["cpu:0"]

    # The cell went on, and its notebook saw nothing of this.
    manager.interrupt_kernel()
    seen += notebook.until_idle(cell)
    assert printed(seen) == "begun\n"
    assert [m["content"]["ename"] for m in seen if m["msg_type"] == "error"] == [
        "KeyboardInterrupt"
    ]
    notebook.close()

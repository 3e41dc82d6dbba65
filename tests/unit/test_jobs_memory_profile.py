"""Memory profiles of JAX in this process, read without Go; and how a program is asked for one."""

import contextlib
import gzip
from typing import Any

import jax
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_tpu.commands.profile import profile, profile_text, untraced_lines
from jupyter_tpu.errors import InvalidInput, Reason
from jupyter_tpu.fleet.jobs.pprof import read_memory_profile
from jupyter_tpu.fleet.models import MemoryLine, MemoryProfile, Problem, Profile, Trace
from jupyter_tpu.on_host.agent.metrics import protobuf
from jupyter_tpu.on_host.profiles import main as on_host

CELL = "/tmp/ipykernel_1/7.py"
CODE = """\
def make(count):
    return [jnp.ones((256, 1024)) + i for i in range(count)]
held = make(2)
"""


@pytest.fixture
def held() -> dict[str, Any]:
    """The variables of a cell that holds 2 MiB."""
    variables: dict[str, Any] = {"jnp": jax.numpy}
    exec(compile(CODE, CELL, "exec"), variables)
    return variables


def in_program(code: str, **variables: Any) -> Any:
    """What *code*, as it is sent to kernels, answers in this process."""
    exec(code, variables)
    return variables["answer"]


def lines_of(lines: list[MemoryLine]) -> list[MemoryLine]:
    return [inner for line in lines for inner in (line, *lines_of(line.calls))]


def test_each_line_of_a_cell_has_what_it_holds(held, tmp_path):
    assert in_program(on_host.MEMORY, folder=str(tmp_path))["state"] == "done"
    data = (tmp_path / "memory").read_bytes()
    memory = read_memory_profile(data, {CELL: 3})
    by_line = {entry.line: entry for entry in lines_of(memory.lines)}
    assert by_line["In[3]:2"].bytes == 2 << 20
    assert [call.line for call in by_line["In[3]:3"].calls] == ["In[3]:2"]
    assert [*memory.devices.values()] == [memory.bytes]
    assert memory.bytes >= 2 << 20
    assert not [line for line in by_line if "array_creation" in line], "libraries are left out"

    shown = profile_text(memory).splitlines()
    (row,) = [line for line in shown if " In[3]:2 " in line]
    assert row.split()[:2] == ["2.1", "MB"]
    assert row.endswith("make")
    # As a file, it is shown without a TPU.
    (tmp_path / "my.prof").write_bytes(data)
    ran = CliRunner().invoke(profile, ["--file", str(tmp_path / "my.prof")])
    assert "7.py:2" in ran.output
    held.clear()
    assert in_program(on_host.MEMORY, folder=str(tmp_path))["state"] == "done"
    after = read_memory_profile((tmp_path / "memory").read_bytes(), {CELL: 3})
    assert "In[3]:2" not in [entry.line for entry in lines_of(after.lines)]


def test_a_program_is_traced_only_once_it_uses_jax(held, tmp_path, monkeypatch):
    times: dict[str, Any] = {"seconds": 0.01, "start": 0.0, "lead": 0.0}
    with monkeypatch.context() as patch:
        patch.setattr("jax._src.xla_bridge._backends", {})
        answer = in_program(on_host.TRACE, folder=str(tmp_path / "a"), **times)
        assert answer == {"state": "no jax"}
        assert in_program(on_host.MEMORY, folder=str(tmp_path)) == {"state": "no jax"}
    done = in_program(on_host.TRACE, folder=str(tmp_path / "b"), **times)
    assert done["ended"] - done["began"] >= 0.01
    assert list((tmp_path / "b").rglob("*" + on_host.SUFFIX))
    jax.profiler.start_trace(str(tmp_path / "c"))
    try:
        answer = in_program(on_host.TRACE, folder=str(tmp_path / "d"), **times)
    finally:
        jax.profiler.stop_trace()
    assert (answer["state"], "already" in answer["error"]) == ("failed", True)


def test_what_is_not_a_memory_profile_is_refused():
    whole = jax.profiler.device_memory_profile()
    times = gzip.compress(protobuf.encode(6, b"") + protobuf.encode(1, b""))
    for data in (b"", b"text", whole[:-20], gzip.compress(b"\xff" * 9), times):
        with pytest.raises(InvalidInput, match="not a memory profile"):
            read_memory_profile(data)


@settings(max_examples=60)
@given(at=st.integers(0, 10_000), byte=st.integers(0, 255))
def test_a_damaged_profile_is_read_or_refused(at, byte):
    data = bytearray(gzip.decompress(jax.profiler.device_memory_profile()))
    data[at % len(data)] = byte
    usage: MemoryProfile | None = None
    with contextlib.suppress(InvalidInput):
        usage = read_memory_profile(bytes(data))
    assert usage is None or isinstance(usage, MemoryProfile)


def test_hosts_without_a_trace_are_named_once():
    problem = Problem(message="It is gone.", reason=Reason.UNREACHABLE, hint="Look.")
    idle = Problem(message="The kernel has not used JAX yet.", reason=Reason.CONFLICT)
    profile = Profile(
        tpu="pod",
        zone="z",
        emulated=True,
        logdir="~/t",
        run="r",
        host=0,
        traces=[
            Trace(host=0, state="done", kernel_idle=True),
            Trace(host=0, state="idle", problem=idle),
            Trace(host=1, state="failed", problem=problem),
            Trace(host=2, state="idle", problem=idle),
            Trace(host=3, state="idle", problem=idle),
        ],
    )
    assert untraced_lines(profile) == [
        "Not traced: host 1. It is gone. Look.",
        "Not traced: hosts 2-3. The kernel has not used JAX yet.",
        "The kernel on host 0 was idle, so nothing ran. Trace while a cell runs.",
    ]

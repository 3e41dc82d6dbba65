"""`@tpu.run`: functions that run on a TPU, and their values here."""

import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import threading, numpy as np
from jupyter_tpu import tpu
from jupyter_tpu.errors import InvalidInput, TPUError

options = dict(type="v5litepod-1", zone="us-west4-a", max_cost=2)
lock, calls = threading.Lock(), []

@tpu.run(**options)
def add(a, *, b):
    import os, socket
    print("on", socket.gethostname(), flush=True)
    calls.append(1)
    return {"sum": a + b, "pid": os.getpid(), "calls": len(calls)}

@tpu.run(**options)
def fail():
    raise KeyError("no such layer")

@tpu.run(**options)
def odd():
    return object()

@tpu.run(**options)
def locked():
    with lock:
        return 1

try:
    locked()
except InvalidInput as error:
    print("refused:", error.message)
first = add(np.arange(1_000_000), b=np.ones(1_000_000, dtype=np.int64))
assert isinstance(first["sum"], np.ndarray) and first["sum"][-1] == 1_000_000
second = add(1, b=2)
assert second["sum"] == 3 and second["pid"] == first["pid"]
print("same kernel; here", len(calls))
try:
    fail()
except KeyError as error:
    print("raised:", error)
try:
    odd()
except InvalidInput as error:
    print("value:", error.message.split(":")[0])
print("still:", add(2, b=2)["sum"])
"""


@pytest.mark.long
def test_a_function_runs_on_a_warm_tpu_and_its_value_comes_back(
    emulator, tmp_path, faults, monkeypatch
):
    for name in ("JUPYTER_TPU_DATA_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    for name, value in emulator.environment.items():
        monkeypatch.setenv(name, value)
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(PROGRAM))
    done = subprocess.run(
        [sys.executable, str(program)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=400,
        stdin=subprocess.DEVNULL,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("refused: locked uses lock (lock), which can't be sent to a TPU")
    host = lines[1]
    assert host.startswith("on t1v-n-")
    assert lines[2:] == [
        host,
        "same kernel; here 0",
        "raised: 'no such layer'",
        "value: _jupyter_tpu_value is of the class object. It would have to be unpickled here, "
        "which can run any code of the TPU.",
        host,
        "still: 4",
    ]
    assert "At most $1.64" in done.stderr
    nodes = emulator.request("GET", "/v2/projects/emulated/locations/us-west4-a/nodes")
    assert not [one for one in nodes.get("nodes", []) if "/once-add-" in one["name"]]
    assert done.stderr.count("Created") <= 1

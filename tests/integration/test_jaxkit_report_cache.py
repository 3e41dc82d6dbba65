"""Reports of programs that were compiled before are kept, and never in the way."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import jax
import pytest

from jupyter_tpu.jaxkit.compile import report_cache
from jupyter_tpu.jaxkit.compile.report import CompileReport

jax.config.update("jax_platforms", "cpu")

PROGRAM = """
import json, sys
from jupyter_tpu import jaxkit

def step(x):
    return x @ x.T

report = jaxkit.compile_for(sys.argv[1], step, (256, 512))
print(json.dumps([report.cached, report.needed_bytes]))
"""


def run(type: str, folder: Path) -> tuple[bool, int]:
    file = folder / "program.py"
    file.write_text(PROGRAM)
    process = subprocess.run(
        [sys.executable, str(file), type], capture_output=True, text=True, timeout=120, check=True
    )
    cached, needed = json.loads(process.stdout)
    return cached, needed


def test_another_process_has_the_report_at_once(own_data: Path, tmp_path: Path) -> None:
    pytest.importorskip("libtpu", reason="pip install 'jupyter-tpu[compile]'")
    pytest.importorskip("flatbuffers", reason="pip install 'jupyter-tpu[compile]'")
    first = run("v5litepod-1", tmp_path)
    second = run("v5litepod-1", tmp_path)
    assert [first[0], second[0]] == [False, True]  # how fast: benchmarks/jaxkit.py
    assert first[1] == second[1]
    assert not run("v6e-1", tmp_path)[0]  # another topology is another program
    (kept, _) = (own_data / "compiled").glob("*.json")
    assert kept.stat().st_mode & 0o077 == 0
    for file in (own_data / "compiled").glob("*.json"):
        file.write_bytes(b'{"type": ')  # as a disk leaves it after a power cut
    assert not run("v5litepod-1", tmp_path)[0]


def test_it_is_bounded_and_a_folder_that_cannot_be_written_is_no_error(
    own_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_cache, "MOST_REPORTS", 3)
    report = CompileReport(
        type="v6e-1", topology="v6e:1x1", devices=1, devices_used=1, hosts=1, fits=True, hbm_bytes=1
    )
    for number in range(5):
        report_cache.keep_report(f"key{number}", report)
        time.sleep(0.01)  # their times differ
    found = [number for number in range(5) if report_cache.kept_report(f"key{number}")]
    assert found == [2, 3, 4]
    kept = report_cache.kept_report("key4")
    assert kept is not None
    assert kept.cached
    assert "compiled before" in str(kept)
    # Full, or a file where the folder should be: both are an OSError.
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", "/dev/full")
    report_cache.keep_report("key", report)
    assert report_cache.kept_report("key") is None


def test_the_key_is_all_that_a_report_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = b"/tmp/ipykernel_%d/123.py"
    key = report_cache.report_key({"a": 1}, cell % 100)
    assert key == report_cache.report_key({"a": 1}, cell % 200)  # the same cell elsewhere
    assert key != report_cache.report_key({"a": 2}, cell % 100)
    assert key != report_cache.report_key({"a": 1}, b"another")
    monkeypatch.setenv("LIBTPU_INIT_ARGS", "--xla_tpu_x=1")
    assert key != report_cache.report_key({"a": 1}, cell % 100)

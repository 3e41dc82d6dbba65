"""What xprof has computed of a run, when traces of other hosts come later."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from jupyter_tpu.on_host.profiles import tensorboard


@pytest.mark.parametrize("place", ["plugins/profile", "training/plugins/profile"])
def test_what_was_computed_before_a_trace_came_is_deleted_and_nothing_else(
    tmp_path: Path, place: str
) -> None:
    run, other = tmp_path / place / "2026_01_01", tmp_path / place / "2026_01_02"
    for folder in (run, other):
        folder.mkdir(parents=True)
        (folder / "host-0.xplane.pb").touch()
        (folder / "host-0.hlo_proto.pb").touch()
    computed = [folder / "ALL_HOSTS.op_stats_v2.pb" for folder in (run, other)]
    for path in computed:
        path.touch()
        os.utime(path, (later := time.time() + 1, later))
    tensorboard.forget_outdated(str(tmp_path))
    assert all(path.exists() for path in computed), "no trace is newer"
    os.utime(computed[0], (1, 1))
    trace = run / "host-1.xplane.pb"
    trace.touch()
    os.utime(trace, (0, 0))  # a copy may keep the time of its original
    for logdir in (str(tmp_path), "gs://bucket/logs", "/nowhere/at/all"):
        tensorboard.forget_outdated(logdir)
    assert [path.exists() for path in computed] == [False, True]
    assert (run / "host-0.hlo_proto.pb").exists()

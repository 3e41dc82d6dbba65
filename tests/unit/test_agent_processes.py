"""A stored process id means the process that had it, and no later one."""

from __future__ import annotations

import signal
import subprocess

from jupyter_tpu.agent.protocol.processes import signal_process, start_time


def test_only_the_process_that_was_meant_gets_a_signal():
    with subprocess.Popen(["sleep", "600"]) as process:
        started = start_time(process.pid)
        assert started
        assert not signal_process(process.pid, str(int(started) - 1), signal.SIGKILL)
        assert not signal_process(process.pid, "", signal.SIGKILL)
        assert process.poll() is None
        assert signal_process(process.pid, started, signal.SIGKILL)
        assert process.wait(60) == -signal.SIGKILL
    assert start_time(process.pid) != started
    assert not signal_process(process.pid, started, signal.SIGKILL)

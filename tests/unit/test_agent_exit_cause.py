"""Why a kernel died, in words."""

import signal

import pytest

from jupyter_tpu.on_host.agent.keeper import exit_cause
from jupyter_tpu.on_host.agent.keeper.exit_cause import HostWatch, describe_exit


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (3, "The kernel exited with code 3."),
        (-11, "The kernel was ended by signal 11 (SIGSEGV)."),
        (-int(signal.SIGRTMIN) - 1, f"The kernel was ended by signal {signal.SIGRTMIN + 1}."),
    ],
)
def test_an_exit_is_a_sentence(code, text):
    assert describe_exit(code) == text


def test_a_kill_for_lack_of_memory_is_told_from_others(tmp_path, monkeypatch):
    counters = tmp_path / "vmstat"
    monkeypatch.setattr(exit_cause, "COUNTERS", str(counters))
    counters.write_text("pgfault 7\noom_kill 1\n")
    watch = HostWatch()
    assert "memory" not in watch.describe(-9)
    counters.write_text("pgfault 7\noom_kill 2\n")
    assert "because memory ran out" in watch.describe(-9)
    assert "memory" not in watch.describe(1)
    for _ in range(3):
        watch.check()
    assert "memory" not in watch.describe(-9), "that was another process, a while ago"


def test_chips_that_are_gone_are_named(monkeypatch):
    chips = ["/dev/accel0", "/dev/accel1"]
    monkeypatch.setattr(exit_cause, "chip_devices", lambda: list(chips))
    watch = HostWatch()
    assert "chips" not in watch.describe(-6)
    del chips[1]
    assert watch.describe(-6).endswith(" The host has lost TPU chips: /dev/accel1.")

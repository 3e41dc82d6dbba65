"""A stored process id means the process that had it, and no later one; and where it comes from."""

import os
import signal
import subprocess
import time

import pytest

from jupyter_tpu.on_host.agent.protocol.processes import origin, signal_process, start_time


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


ID = "0123456789ab" + "c" * 52


@pytest.mark.parametrize(
    ("group", "container", "stop"),
    [
        (f"0::/system.slice/docker-{ID}.scope", ID[:12], f"sudo docker stop {ID[:12]}"),
        (f"12:pids:/docker/{ID}\n0::/", ID[:12], f"sudo docker stop {ID[:12]}"),
        (f"0::/machine.slice/libpod-{ID}.scope", ID[:12], f"sudo podman stop {ID[:12]}"),
        (
            f"0::/user.slice/user-0.slice/user@0.service/user.slice/libpod-{ID}.scope",
            ID[:12],
            f"sudo -iu root podman stop {ID[:12]}",
        ),
        (f"0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-{ID}.scope", ID[:12], ""),
        ("0::/user.slice/user-1000.slice/session-3.scope", "", ""),
    ],
)
def test_a_container_is_known_by_its_control_group_and_how_it_is_stopped(
    tmp_path, group, container, stop
):
    process = tmp_path / "proc" / str(os.getpid())
    process.mkdir(parents=True)
    (process / "cgroup").write_text(group + "\n")
    (process / "status").write_text("Name:\tpython\nNSpid:\t77\nNSsid:\t1\n")
    process_origin = origin(os.getpid(), str(tmp_path))
    assert (process_origin["container"], process_origin["stop"]) == (container, stop)
    assert abs(time.time() - process_origin["since"] - process_origin["age"]) < 60
    if not container:  # that it has ids of its own says that it is in one
        (process / "status").write_text("Name:\tpython\nNSpid:\t77\t1\nNSsid:\t77\t1\n")
        assert origin(os.getpid(), str(tmp_path))["container"] == "?"


def test_a_process_that_has_ended_has_no_age():
    ended = subprocess.Popen(["true"])
    ended.wait()
    assert origin(ended.pid)["since"] is None

"""Bad days of a pod kernel: the line from host 0 to another host dies or goes silent, while a cell
runs and between two cells; a host is slow, has another Python, or runs a cell to another end.
"""

import contextlib
import os
import re
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fault_proxy import FaultProxy
from local_kernels import Notebook
from pod_environment import pod_with_jax, register_pod_kernel
from pod_kernels import ZONE, error_of, in_step, pids, pod_kernel, restart, shown, stderr
from waiting import until

pytestmark = pytest.mark.long

HOSTS = 4
#: Prints its number when it begins; the hosts need each other at its end.
COLLECTIVE = """\
import jax, time
from jax.experimental import multihost_utils
print("begun", flush=True)
time.sleep(600 if jax.process_index() == 3 else 0)
multihost_utils.process_allgather(jax.numpy.arange(3))
"""
#: Seconds in which SSH notices that the other end is silent, with room for a busy machine.
NOTICED = 120.0


@pytest.fixture(scope="module")
def pod(emulator: Any) -> Iterator[str]:
    with pod_with_jax(emulator, "lines", ZONE, HOSTS) as name:
        yield name


@pytest.fixture(scope="module")
def line(pod: str, emulator: Any) -> Iterator[FaultProxy]:
    """The line from host 0 to host 3, which SSH between them takes."""
    first, other = (host for host in emulator.hosts(pod) if host["worker"] in (0, 3))
    config = Path(first["folder"], "home", "tpu", ".ssh", "config")
    with FaultProxy(
        other["internal"], other["port"], address=other["internal"], source=first["internal"]
    ) as proxy:
        # What comes first counts: the file that it includes has the port of the host's own SSH.
        before = config.read_text() if config.exists() else ""
        config.parent.mkdir(mode=0o700, exist_ok=True)
        config.write_text(
            f"Match originalhost host-3\n    Port {proxy.port}\nMatch all\n"
            f"Include jupyter_tpu_pod_config\n{before}"
        )
        owner = config.parent.parent.stat()
        os.chown(config, owner.st_uid, owner.st_gid)
        os.chown(config.parent, owner.st_uid, owner.st_gid)
        yield proxy


@pytest.fixture(scope="module")
def kernel(pod: str, emulator: Any, line: FaultProxy) -> Iterator[Notebook]:
    spec, _ = register_pod_kernel(emulator, ZONE, pod, HOSTS)
    with pod_kernel(emulator, spec, pod) as notebook:
        assert line.flows, "SSH takes the line"
        yield notebook
        line.mend()


@pytest.fixture
def notebook(kernel: Notebook, line: FaultProxy) -> Notebook:
    """The pod kernel, in step."""
    line.mend()
    return in_step(kernel)


def cut(line: FaultProxy) -> None:
    line.cut()
    line.mend()


def dead(line: FaultProxy) -> None:
    """The connection is silent for ever; a new one works."""
    line.dead()


@pytest.mark.parametrize("trouble", [cut, dead])
def test_a_line_that_fails_during_a_cell_names_its_host_and_a_restart_has_it_again(
    notebook, line, emulator, pod, trouble
):
    [before] = pids(emulator, pod, 3)
    request = notebook.client.execute(COLLECTIVE)
    notebook.until_output(request, "begun")
    trouble(line)
    text = error_of(notebook.until_idle(request))
    assert "\nKernelDied: The connection to host 3 has ended" in text
    assert "The hosts are out of step. The connection to host 3 has ended" in text
    content, _ = notebook.run("print('never')")
    assert content["ename"] == "OutOfStep"
    # What is left on host 3, which can't know yet that nobody listens, is ended by the next start.
    restart(notebook)
    assert notebook.text("import jax; print(jax.device_count())") == "16\n"
    assert before not in pids(emulator, pod, 3)


@pytest.mark.parametrize("trouble", [cut, dead])
def test_a_line_that_fails_between_two_cells_is_said_and_the_others_can_save_what_they_have(
    notebook, line, trouble
):
    notebook.text("value = 7")
    trouble(line)
    until(lambda: "connection to host 3 has ended" in notebook.text("%hosts"), NOTICED)
    content, _ = notebook.run("print('never')")
    assert (content["ename"], content["status"]) == ("OutOfStep", "error")
    assert "They run on hosts 0-2." in notebook.text("%hosts continue")
    assert notebook.text("%%host 0\nprint(value)") == "7\n"


def test_a_cell_that_begins_on_a_silent_line_names_the_host_and_ends(notebook, line):
    line.dead()
    assert "connection to host 3 has ended" in error_of(
        notebook.until_idle(notebook.client.execute("1 + 1"))
    )


def test_a_start_over_a_silent_line_says_which_host_it_waits_for(notebook, line):
    line.hole()
    notebook.manager.restart_kernel(now=True)
    notebook.client.wait_for_ready(timeout=200)
    content, _ = notebook.run("print('never')", timeout=300)
    assert content["ename"] == "OutOfStep"
    assert re.search(r"[Hh]ost 3", content["evalue"]), content


def test_the_other_hosts_outlive_a_host_that_died_longer_than_jax_lets_them(
    notebook, emulator, pod
):
    [kernel] = pids(emulator, pod, 3)
    os.kill(kernel, signal.SIGKILL)
    until(lambda: "kernel of host 3" in notebook.text("%hosts"))
    notebook.text("%hosts continue")
    notebook.text("%%hosts 0-2\nimport time; value = 8")
    others = [pids(emulator, pod, host) for host in range(3)]
    # By default JAX ends a process 100 s after another one was last heard of.
    assert notebook.text("%%hosts 0-2\ntime.sleep(115)\nprint(value)", timeout=200) == "8\n"
    assert [pids(emulator, pod, host) for host in range(3)] == others


# ---- one host is not like the others


@contextlib.contextmanager
def slow_backend(emulator: Any, pod: str, seconds: float) -> Iterator[None]:
    """JAX on host 3 takes so many seconds longer to find its devices: a plugin of it sleeps."""
    [host] = [host for host in emulator.hosts(pod) if host["worker"] == 3]
    plugins = next(Path(host["folder"], "home/tpu/env/lib").glob("python3*/site-packages"))
    plugin = plugins / "jax_plugins" / "slow"
    plugin.mkdir(parents=True)
    (plugin / "__init__.py").write_text(f"import time\ndef initialize(): time.sleep({seconds})\n")
    try:
        yield
    finally:
        shutil.rmtree(plugin.parent)


def test_a_host_that_can_not_be_interrupted_for_a_while_comes_back_by_itself(notebook):
    """As one that compiles. What its cell leaves is kept: nothing is restarted."""
    notebook.text("import jax\nkept = jax.process_index()")
    content, seen = notebook.run(
        "import signal, time\n"
        "if jax.process_index() == 1:\n"
        "    before = signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "    end = time.monotonic() + 15\n"
        "    while time.monotonic() < end: time.sleep(0.1)\n"
        "    signal.signal(signal.SIGINT, before)\n"
        "elif jax.process_index() == 2: raise ValueError('bad batch')"
    )
    assert content["ename"] == "ValueError"
    assert "Host 1 does not react to the interrupt. When all hosts have ended" in error_of(seen)
    content, _ = notebook.run("kept")
    assert content["ename"] == "OutOfStep"
    assert "When all hosts have ended the cell" in content["evalue"]
    until(lambda: notebook.run("kept")[0]["status"] == "ok", 60)
    assert notebook.text("%hosts check") == "All hosts are in step.\n"


def test_an_interrupt_while_hosts_join_ends_the_wait_and_a_restart_starts_them_again(
    notebook, emulator, pod
):
    with slow_backend(emulator, pod, 600):
        notebook.manager.restart_kernel(now=True)
        notebook.client.wait_for_ready(timeout=200)
        request = notebook.client.execute("print('never')")
        seen: list[dict[str, Any]] = []
        while not re.search(r"Waiting for host.* to join the other hosts", shown(seen)):
            seen.append(notebook.client.get_iopub_msg(timeout=60))
        assert stderr(seen) == "", "it is progress, and no error"
        notebook.manager.interrupt_kernel()
        assert "The start of the hosts was interrupted." in error_of(notebook.until_idle(request))
    restart(notebook)
    assert notebook.text("import jax; print(jax.device_count())") == "16\n"

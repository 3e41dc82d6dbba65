"""What a kernel and its clients notice of a line that breaks, and of ends of every kind.

No SSH here: the line is a unix socket that is cut where a test wants it (see `local_host.py`).
"""

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from jupyter_client.manager import KernelManager
from local_host import LocalHost
from local_kernels import Notebook, local_host, printed
from waiting import until

from jupyter_tpu.errors import Reason
from jupyter_tpu.kernels.relay import KernelRelay
from jupyter_tpu.links import core_thread
from jupyter_tpu.on_host.agent.protocol import requests
from jupyter_tpu.on_host.agent.protocol.processes import start_time

Started = tuple[LocalHost, KernelManager, Notebook]


@pytest.fixture(scope="module")
def remote() -> Iterator[tuple[LocalHost, Callable[[], KernelManager]]]:
    with local_host("outages") as host:
        yield host


@pytest.fixture
def started(remote) -> Iterator[Started]:
    """A kernel that may be lost."""
    host, make = remote
    manager = make()
    manager.start_kernel()
    notebook = Notebook(manager)
    yield host, manager, notebook
    host.loop_call(host.mend)
    notebook.close()
    if manager.has_kernel:
        manager.shutdown_kernel(now=True)


#: Seconds for which the hosts of `shortlived` keep the last messages of a kernel: enough for a busy
#: machine to connect again.
SHORT = 4.0


@pytest.fixture
def shortlived() -> Iterator[tuple[LocalHost, Callable[[], KernelManager]]]:
    """A host with an agent that keeps last messages for a moment instead of weeks."""
    with local_host("shortlived") as (host, make):
        core_thread().wait(host.agent())
        [source] = host.home.glob(".jupyter-tpu/agent/*/*/agent/keeper/keeper.py")
        text = source.read_text()
        source.write_text(
            text.replace("LINGER_SECONDS = 28 * 24 * 3600.0", f"LINGER_SECONDS = {SHORT}", 1)
        )
        assert source.read_text() != text
        yield host, make


def kernel_pid(host: LocalHost) -> int:
    """The process of the host's only kernel."""

    async def ask() -> int:
        agent = await host.agent()
        [kernel] = (await agent.request(requests.ListKernelsRequest()))["kernels"]
        return kernel["pid"]

    return core_thread().wait(ask())


def idle(messages: list[dict]) -> bool:
    return bool(messages) and messages[-1]["content"].get("execution_state") == "idle"


def relay_of(manager: KernelManager) -> KernelRelay:
    return manager.provisioner._relay


def test_no_line_is_lost_when_the_line_is_cut_in_the_middle_again_and_again(started):
    host, manager, notebook = started
    cuts = 0
    request = notebook.client.execute(
        "import time\nfor i in range(300):\n    print(i, flush=True)\n    time.sleep(0.005)"
    )
    host.loop_call(host.cut_after, 700)
    seen = []
    while not (seen and seen[-1]["content"].get("execution_state") == "idle"):
        if host.is_cut:
            assert manager.is_alive()
            cuts += 1
            host.loop_call(host.mend)
            host.loop_call(host.cut_after, 997 * cuts)  # at another byte each time
        if notebook.client.iopub_channel.msg_ready():
            message = notebook.client.get_iopub_msg(timeout=1)
            if message["parent_header"].get("msg_id") == request:
                seen.append(message)
        else:
            time.sleep(0.001)
    assert cuts >= 5
    assert printed(seen).split() == [str(number) for number in range(300)]
    # The readiness probe may have left replies of its own.
    replies: list[dict] = []
    while not any(m["parent_header"]["msg_id"] == request for m in replies):
        replies.append(notebook.client.get_shell_msg(timeout=60))
    while notebook.client.shell_channel.msg_ready():
        replies.append(notebook.client.get_shell_msg(timeout=60))
    statuses = [m["content"]["status"] for m in replies if m["parent_header"]["msg_id"] == request]
    assert statuses == ["ok"], "the reply came, and came once"


def test_an_interrupt_works_while_much_output_waits(started):
    host, _, notebook = started
    request = notebook.client.execute(
        "import pathlib\ntry:\n    while True: print('x' * 10_000, flush=True)\n"
        "finally: pathlib.Path('interrupted').touch()"
    )
    notebook.until_output(request, "xxx")
    host.loop_call(host.stall)
    [run] = (host.home / ".jupyter-tpu/run").glob("k-*")
    until(lambda: list(run.glob("journal-*")))  # more waits than memory holds
    notebook.manager.interrupt_kernel()
    until(lambda: (host.home / "interrupted").exists())
    host.loop_call(host.mend)
    notebook.until_idle(request)


def test_a_kernel_that_ends_by_itself_is_dead_with_its_exit_code_and_its_last_words(started):
    _, manager, notebook = started
    request = notebook.client.execute("print('last words')\nimport os, sys\nsys.stdout.flush()\n"
                                      "import time; time.sleep(0.3)\nos._exit(3)")  # fmt: skip
    until(lambda: not manager.is_alive())
    assert relay_of(manager).code == 3
    assert "code 3" in relay_of(manager).problem.message
    notebook.until_output(request, "last words")


def test_the_cell_of_a_kernel_that_dies_while_no_client_is_connected_has_its_lines_and_the_cause(
    started,
):
    host, manager, notebook = started
    running = notebook.client.execute("for i in range(150): print(i)\nimport time\ntime.sleep(600)")
    waiting = notebook.client.execute("print('never')")
    notebook.until_output(running, "0")
    pid = kernel_pid(host)
    host.loop_call(host.cut)
    os.kill(pid, signal.SIGSEGV)
    until(lambda: not [line for line in host.processes() if "ipython_kernel" in line])
    host.loop_call(host.mend)
    seen = {running: [], waiting: []}
    while not all(idle(messages) for messages in seen.values()):
        message = notebook.client.get_iopub_msg(timeout=60)
        seen.get(message["parent_header"].get("msg_id"), []).append(message)
    [error] = [m["content"] for m in seen[running] if m["msg_type"] == "error"]
    assert error["evalue"] == "The kernel was ended by signal 11 (SIGSEGV)."
    assert "Segmentation fault" in "\n".join(error["traceback"])
    assert [m["msg_type"] for m in seen[waiting]] == ["status"]
    until(lambda: not manager.is_alive())
    assert "signal 11" in relay_of(manager).problem.message
    # No reply, as of a local kernel: nbclient then raises DeadKernelError. Those that come
    # are to `wait_for_ready`, which asks more than once where a start takes longer than a second.
    replies = []
    while notebook.client.shell_channel.socket.poll(500):
        replies.append(notebook.client.get_shell_msg()["parent_header"]["msg_id"])
    assert not {running, waiting} & {*replies}


def test_last_messages_are_kept_for_a_time_after_a_kernels_death_and_their_loss_is_reported(
    shortlived,
):
    host, make = shortlived
    manager = make()
    manager.start_kernel()
    notebook = Notebook(manager)
    for lost in (False, True):
        request = notebook.client.execute("print('here')\nimport time; time.sleep(600)")
        notebook.until_output(request, "here")
        pid = kernel_pid(host)
        host.loop_call(host.cut)
        if not lost:
            time.sleep(SHORT + 0.5)  # away for longer than messages are kept
        os.kill(pid, signal.SIGKILL)
        if lost:
            until(lambda: not [line for line in host.processes() if "keeper" in line])
        host.loop_call(host.mend)
        until(lambda: not manager.is_alive())
        problem = str(relay_of(manager).problem)
        assert problem.startswith("The kernel was ended by signal 9 (SIGKILL).")
        assert ("no longer stored on the host" in problem) == lost
        seen = notebook.until_output(request, "no longer stored") if lost else []
        if not lost:
            seen = notebook.until_idle(request)
            assert "error" in [message["msg_type"] for message in seen]
        manager.restart_kernel(now=True)
        notebook.client.wait_for_ready(timeout=60)
    notebook.close()
    manager.shutdown_kernel(now=True)


def test_what_is_asked_of_a_kernel_that_has_died_is_done_by_the_next_one(started):
    _, manager, notebook = started
    notebook.client.execute("import os; os.kill(os.getpid(), 9)")
    until(lambda: not manager.is_alive())
    request = notebook.client.execute("print('by the next one')")
    manager.restart_kernel(now=True)
    assert printed(notebook.until_idle(request)) == "by the next one\n"


def test_a_kernel_whose_keeper_is_killed_is_dead_with_the_reason(started):
    host, manager, notebook = started
    keeper = int(notebook.text("import os; print(os.getppid())"))
    os.kill(keeper, signal.SIGKILL)
    until(lambda: not manager.is_alive())
    problem = relay_of(manager).problem
    assert problem.reason is Reason.NOT_FOUND
    assert "no longer on its host" in problem.message
    until(lambda: not [line for line in host.processes() if "ipython_kernel" in line])


def test_the_daemon_may_be_killed_under_a_running_cell(started):
    host, manager, notebook = started
    daemon = core_thread().wait(host.agent()).hello["pid"]
    request = notebook.client.execute(
        "import time\nfor i in range(50):\n    print(i, flush=True)\n    time.sleep(0.01)"
    )
    os.kill(daemon, signal.SIGKILL)
    assert len(printed(notebook.until_idle(request)).split()) == 50
    manager.restart_kernel()  # asks the next daemon
    notebook.client.wait_for_ready(timeout=60)


def test_a_shutdown_leaves_nothing_not_even_what_tried_to_get_away(remote):
    host, make = remote
    manager = make()
    manager.start_kernel()
    notebook = Notebook(manager)
    before = notebook.text(
        "import subprocess, os\n"
        "a = subprocess.Popen(['sleep', '600'])\n"
        "b = subprocess.Popen(['sleep', '601'], start_new_session=True)\n"
        "c = subprocess.run(['sh', '-c', 'setsid sleep 602 >/dev/null 2>&1 & echo $!'],"
        " capture_output=True, text=True)\n"
        "print(os.getpid(), a.pid, b.pid)"
    )
    until(lambda: len([line for line in host.processes() if line.startswith("sleep 60")]) == 3)
    manager.shutdown_kernel()
    notebook.close()
    assert not any(start_time(int(pid)) for pid in before.split())
    until(lambda: not host.processes_besides_the_agent())
    assert not list((host.home / ".jupyter-tpu/run").glob("k-*"))


def test_a_kernel_that_ignores_the_shutdown_is_killed(remote):
    host, make = remote
    manager = make(shutdown_wait_time=1.0)
    manager.start_kernel()
    notebook = Notebook(manager)
    request = notebook.client.execute(
        "import signal, time\nfor s in (2, 15): signal.signal(s, signal.SIG_IGN)\n"
        "print('begun')\nwhile True:\n    try: time.sleep(600)\n    except BaseException: pass"
    )
    notebook.until_output(request, "begun")
    manager.shutdown_kernel()
    notebook.close()
    until(lambda: not host.processes_besides_the_agent())


def test_a_shutdown_while_the_line_is_cut_is_done_when_it_is_back(remote, monkeypatch):
    host, make = remote
    monkeypatch.setattr("jupyter_tpu.kernels.host_kernel.SHUTDOWN_TIMEOUT", 0.5)
    monkeypatch.setattr("jupyter_tpu.kernels.exit_cleanup.RETRY_SECONDS", 0.1)
    manager = make(shutdown_wait_time=0.2)
    manager.start_kernel()
    Notebook(manager).close()
    host.loop_call(host.cut)
    manager.shutdown_kernel()
    assert [line for line in host.processes() if "ipython_kernel" in line]
    host.loop_call(host.mend)
    until(lambda: not host.processes_besides_the_agent())


def memory_of(pid: int) -> int:
    """Resident bytes of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")

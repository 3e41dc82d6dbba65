"""What a user notices of a bad line to a TPU: that it was bad, and nothing else.

Over real SSH, through a proxy that cuts, stalls and slows the line (`fault_proxy.py`). What is
`long` takes the times that users meet; the others take shorter ones and a quicker keepalive.
"""

import os
import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from jupyter_client.manager import KernelManager
from local_kernels import Notebook, printed
from stormy_host import Storm, storm

from jupyter_tpu.links import LinkState, core_thread, registry
from jupyter_tpu.ssh import Keepalive

#: A far region: 250 ms, 2 Mbit/s, 1 % loss.
SLOW = {"delay": 0.125, "rate": 250_000.0, "loss": 0.01}
#: Seconds of silence. The keeper and its client take 6 s of it for a lost connection, …
SILENCE = 8.0
#: … the link takes 3.
QUICK = Keepalive(1.0, 2)


@pytest.fixture(scope="module")
def quick(emulator: Any, kernels_tpu: str) -> Iterator[Storm]:
    with storm(emulator, kernels_tpu, QUICK) as made:
        yield made


@pytest.fixture
def stormy(quick: Storm) -> Iterator[Storm]:
    """The line is good again after the test."""
    yield quick
    fair(quick)


@pytest.fixture(scope="module")
def manager(quick: Storm) -> KernelManager:
    return quick.kernel()


@pytest.fixture
def notebook(stormy: Storm, manager: KernelManager) -> Iterator[Notebook]:
    fair(stormy)
    made = Notebook(manager)
    yield made
    made.close()


def fair(stormy: Storm) -> None:
    proxy = stormy.proxy
    proxy.delay = proxy.rate = proxy.loss = 0.0
    proxy.mend()


def slow(stormy: Storm) -> None:
    for name, value in SLOW.items():
        setattr(stormy.proxy, name, value)


def all_lines_come(notebook: Notebook, break_line: Callable[[], None], pause: float) -> float:
    """Runs a cell of 300 lines, breaks the line after some; how long it then was silent (s)."""
    client = notebook.client
    request = client.execute(
        f"import time\nfor i in range(300):\n    print(i, flush=True)\n    time.sleep({pause})"
    )
    seen = notebook.until_output(request, "\n20\n")
    begun = time.monotonic()
    break_line()
    seen += notebook.until_output(request, "\n")
    recovered = time.monotonic() - begun
    seen += notebook.until_idle(request)
    assert printed(seen).split() == [str(number) for number in range(300)]
    reply = client.get_shell_msg(timeout=60)
    while reply["parent_header"]["msg_id"] != request:
        reply = client.get_shell_msg(timeout=60)
    assert reply["content"]["status"] == "ok"
    assert notebook.manager.is_alive()
    return recovered


def cut(stormy: Storm, seconds: float = 1.0) -> None:
    stormy.proxy.cut()
    time.sleep(seconds)
    stormy.proxy.mend()


def hole(stormy: Storm, seconds: float = SILENCE) -> None:
    stormy.proxy.hole()
    time.sleep(seconds)
    stormy.proxy.mend()


def dead(stormy: Storm, seconds: float = SILENCE) -> None:
    stormy.proxy.dead()
    hole(stormy, seconds)


def reset(stormy: Storm) -> None:
    stormy.proxy.reset()


@pytest.mark.parametrize(
    "fault",
    [
        reset,
        dead,
        pytest.param(cut, marks=pytest.mark.long),
        pytest.param(hole, marks=pytest.mark.long),
    ],
)
def test_no_line_is_lost(stormy, notebook, fault):
    silent = all_lines_come(notebook, lambda: fault(stormy), 0.02)
    print(f"{fault.__name__}: silent for {silent:.1f} s")


def test_no_line_is_lost_on_a_slow_line_that_dies(stormy, notebook):
    slow(stormy)
    all_lines_come(notebook, lambda: dead(stormy), 0.02)


def test_reconnecting_costs_little(stormy, notebook):
    """The goal of DESIGN.md section 7: 50 kB from the laptop."""
    notebook.text("print('connected')")
    stormy.proxy.count()
    up = down = 0
    for _ in range(3):
        stormy.proxy.reset()
        assert notebook.text("print('again')") == "again\n"
        up, down = (max(pair) for pair in zip((up, down), stormy.proxy.count(), strict=True))
    print(f"reconnect: {up} bytes up, {down} down")
    assert up < 50_000
    assert down < 50_000


@pytest.mark.long
@pytest.mark.parametrize("line", [fair, slow])
@pytest.mark.parametrize("fault", [cut, hole, dead])
def test_no_line_is_lost_for_real(emulator, kernels_tpu, fault, line):
    """As users meet it: 20 s of silence, and the keepalive that they have."""
    with storm(emulator, kernels_tpu) as patient:
        notebook = Notebook(patient.kernel())
        line(patient)
        seconds = 1.0 if fault is cut else 20.0
        silent = all_lines_come(notebook, lambda: fault(patient, seconds), 0.1)
        print(f"{fault.__name__}, {line.__name__}: 300 of 300 lines, silent for {silent:.1f} s")
        notebook.close()


def test_no_line_is_lost_when_processes_that_carry_it_are_killed(stormy, notebook):
    """sshd's processes for the connection, and the daemon that started the keeper."""
    chance = random.Random(7)

    def session(process: dict[str, Any]) -> bool:
        line = " ".join(process["cmdline"])
        return line.startswith("sshd: ") and "listener" not in line

    def daemon(process: dict[str, Any]) -> bool:
        return process["cmdline"][-1:] == ["daemon"]

    request = notebook.client.execute(
        "import time\nfor i in range(300):\n    print(i, flush=True)\n    time.sleep(0.03)"
    )
    seen = notebook.until_output(request, "\n10\n")
    killed = 0
    for what in (session, daemon, session):
        for pid in stormy.processes(what):
            os.kill(pid, signal.SIGKILL)
            killed += 1
        core_thread().wait(stormy.link.wait_up())
        time.sleep(chance.random())
    seen += notebook.until_idle(request)
    assert killed >= 3
    assert printed(seen).split() == [str(number) for number in range(300)]
    assert notebook.text("print('fine')") == "fine\n"


def test_a_machine_that_wakes_up_reconnects_at_once(emulator, kernels_tpu, monkeypatch):
    """The connections that it had are dead, and a keepalive would notice that only later."""
    ahead = 0.0
    monkeypatch.setattr(registry, "_clock", lambda: time.time() + ahead)
    monkeypatch.setattr(registry, "_LOOK_SECONDS", 0.1)
    seen: list[tuple[LinkState, str]] = []

    async def subscribe() -> None:
        asleep.link.subscribe(lambda link: seen.append((link.state, str(link.problem))))

    with storm(emulator, kernels_tpu, Keepalive(600.0, 2)) as asleep:
        notebook = Notebook(asleep.kernel())
        core_thread().wait(subscribe())
        asleep.proxy.dead()
        ahead = 3600.0
        assert notebook.text("print('back')") == "back\n"
        notebook.close()
        states = [state for state, _ in seen]
    assert states[0] is LinkState.SILENT, "it was asked for an answer"
    assert LinkState.UP in states
    problems = [why for state, why in seen if state in (LinkState.CONNECTING, LinkState.WAITING)]
    assert problems[0].startswith("The connection to kernels-tpu was lost.")


def test_a_first_connection_with_agent_and_kernel_costs_little(emulator, kernels_tpu, stormy):
    """The goal is 5 MB from the laptop; making an environment is not in it here."""
    for installed in (stormy.home / ".jupyter-tpu" / "agent").iterdir():
        shutil.rmtree(installed)
    for pid in stormy.processes(lambda process: process["cmdline"][-1:] == ["daemon"]):
        os.kill(pid, signal.SIGKILL)
    with storm(emulator, kernels_tpu, QUICK) as first:
        notebook = Notebook(first.kernel())
        assert notebook.text("print('here')") == "here\n"
        up, down = first.proxy.count()
        notebook.close()
    print(f"first connection: {up} bytes up, {down} down")
    assert up < 185_000  # nearly all of it is the agent
    assert down < 100_000

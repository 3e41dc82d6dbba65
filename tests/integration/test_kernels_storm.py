"""What a user notices of a bad line to a TPU: that it was bad, and nothing else.

Over real SSH, through a proxy that cuts, stalls and slows the line (`fault_proxy.py`). What is
`long` takes the times that users meet; the others take shorter ones and a quicker keepalive.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fault_proxy import FaultProxy
from jupyter_client.manager import KernelManager
from local_kernels import Notebook, printed
from stormy_host import Storm, storm

from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.links import LinkState, core_thread
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


@pytest.mark.parametrize("fault", [cut, hole, dead])
def test_no_line_is_lost(stormy, notebook, fault):
    silent = all_lines_come(notebook, lambda: fault(stormy), 0.02)
    print(f"{fault.__name__}: silent for {silent:.1f} s")


def test_no_line_is_lost_on_a_slow_line_that_dies(stormy, notebook):
    slow(stormy)
    all_lines_come(notebook, lambda: dead(stormy), 0.02)


def test_output_flows_again_soon_after_a_short_cut(stormy, notebook):
    """The goal is 2 s after the line is back; what is asserted leaves room for a busy machine."""
    silent = all_lines_come(notebook, stormy.proxy.reset, 0.01)
    assert silent < 10
    print(f"reset: silent for {silent:.1f} s")


@pytest.mark.parametrize("fault", [FaultProxy.hole, FaultProxy.dead])
def test_a_command_over_a_silent_line_fails_with_the_reason_within_the_keepalives_bound(
    stormy, fault
):
    async def run() -> tuple[TPUError, float, list[LinkState]]:
        link, seen = stormy.link, []
        await link.up()
        unsubscribe = link.subscribe(lambda changed: seen.append(changed.state))
        command = asyncio.ensure_future(link.run(["sleep", "600"]))
        await link.run(["true"])
        begun = time.monotonic()
        fault(stormy.proxy)
        with pytest.raises(TPUError) as caught:
            await command
        seconds = time.monotonic() - begun
        while link.state in (LinkState.UP, LinkState.SILENT):
            await asyncio.sleep(0.01)
        unsubscribe()
        return caught.value, seconds, seen

    error, seconds, seen = core_thread().wait(run())
    assert error.reason is Reason.UNREACHABLE
    assert "The connection to kernels-tpu was lost." in str(error)
    assert QUICK.bound - QUICK.interval <= seconds < QUICK.bound + 10
    assert seen[0] is LinkState.SILENT
    assert seen[1] in (LinkState.CONNECTING, LinkState.WAITING)
    fair(stormy)
    assert core_thread().wait(stormy.link.run(["echo", "again"])).stdout == "again\n"


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

"""Much output while the line to the host is stuck: all of it comes, and memory stays bounded.

Over real SSH, through a line that carries nothing for a while (`fault_proxy.py`). Memory is the
resident one of the keeper, and of this process, in which relay and client live.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from local_kernels import Notebook, printed
from stormy_host import Storm, storm
from waiting import until

from jupyter_tpu.ssh import Keepalive

MB = 1 << 20
#: A hole of a test is not to be taken for a loss of the link; that is in test_kernels_storm.py.
PATIENT = Keepalive(30.0, 4)
#: A progress bar like tqdm's.
BAR = """
for i in range(3001):
    bar = f"\\r{i / 30:5.1f}%|{'#' * (i // 60):50}|"
    print(bar, end="", file=sys.stderr, flush=True)
"""


@pytest.fixture(scope="module")
def stormy(emulator: Any, kernels_tpu: str) -> Iterator[Storm]:
    with storm(emulator, kernels_tpu, PATIENT) as made:
        yield made


@pytest.fixture(scope="module")
def shared(stormy: Storm) -> Iterator[Notebook]:
    made = Notebook(stormy.kernel())
    yield made
    made.close()


@pytest.fixture
def notebook(stormy: Storm, shared: Notebook) -> Iterator[Notebook]:
    """The one kernel, idle; the line is good again after the test."""
    shared.run("import sys\nfrom IPython.display import display")
    yield shared
    stormy.proxy.mend()


@pytest.fixture
def peak(stormy: Storm, shared: Notebook) -> Peak:
    (keeper,) = stormy.processes(lambda process: process["cmdline"][-1:] == ["keeper"])
    return Peak({"keeper": keeper, "client": os.getpid()})


class Peak:
    """How much more memory processes have than at first, at most."""

    def __init__(self, pids: dict[str, int]) -> None:
        self._pids = pids
        self._before = {name: resident(pid) for name, pid in pids.items()}
        self.of = dict.fromkeys(pids, 0)

    def look(self) -> None:
        for name, pid in self._pids.items():
            self.of[name] = max(self.of[name], resident(pid) - self._before[name])

    def __str__(self) -> str:
        return ", ".join(f"{name} +{size // MB} MB" for name, size in self.of.items())


def resident(pid: int) -> int:
    """Bytes of memory that a process has."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def run_behind_a_break(
    stormy: Storm, notebook: Notebook, code: str, break_line: Callable[[], None], peak: Peak
) -> list[dict[str, Any]]:
    """Executes *code* up to its end while nothing comes through; then what came of it."""
    request = notebook.client.execute(
        "import pathlib, time\nprint('begun', flush=True)\n"
        f"while not pathlib.Path('go').exists(): time.sleep(0.01)\n{code}\n"
        "sys.stdout.flush()\nsys.stderr.flush()\npathlib.Path('done').touch()"
    )
    notebook.until_output(request, "begun\n")
    break_line()
    (stormy.home / "go").touch()
    until(lambda: peak.look() or (stormy.home / "done").exists(), 600)
    for name in ("go", "done"):
        (stormy.home / name).unlink()
    stormy.proxy.count()
    stormy.proxy.mend()
    seen: list[dict[str, Any]] = []
    while not (seen and seen[-1]["content"].get("execution_state") == "idle"):
        message = notebook.client.get_iopub_msg(timeout=60)
        if message["parent_header"].get("msg_id") == request:
            seen.append(message)
            if len(seen) % 100 == 0:
                peak.look()
    peak.look()
    return seen


@pytest.mark.long
def test_of_progress_during_an_absence_what_is_left_to_see_comes_and_costs_little(
    stormy, notebook, peak
):
    seen = run_behind_a_break(
        stormy,
        notebook,
        f"from IPython.display import clear_output, display\n{BAR}"
        "shown = display('first', display_id=True)\n"
        "for i in range(1000): shown.update(i)\n"
        "for i in range(1000):\n    clear_output(wait=True)\n    print('round', i)",
        stormy.proxy.cut,
        peak,
    )
    up, down = stormy.proxy.count()
    print(f"progress: {down} bytes down, {up} up, {len(seen)} messages")
    assert down < 100_000
    bars = [m["content"]["text"] for m in seen if m["content"].get("name") == "stderr"]
    assert len(bars) < 10, "it was cleared: at most what was on its way then"
    (update,) = [m for m in seen if m["msg_type"] == "update_display_data"]
    assert update["content"]["data"]["text/plain"] == "999"
    assert printed(seen).endswith("round 999\n")


@pytest.mark.parametrize("count", [2_000, pytest.param(20_000, marks=pytest.mark.long)])
def test_every_display_comes_when_the_line_was_stuck(stormy, notebook, peak, count):
    seen = run_behind_a_break(
        stormy,
        notebook,
        f"for i in range({count}): display({{'text/plain': f'{{i:2000}}'}}, raw=True)",
        stormy.proxy.hole,
        peak,
    )
    shown = [m["content"]["data"]["text/plain"] for m in seen if m["msg_type"] == "display_data"]
    assert list(map(int, shown)) == list(range(count))
    print(f"{count} displays of 2 kB: {peak}")
    assert peak.of["keeper"] < 64 * MB
    assert peak.of["client"] < 400 * MB


@pytest.mark.parametrize("count", [100_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_every_line_comes_when_the_line_was_stuck(stormy, notebook, peak, count):
    code = f"for i in range({count}): print(i)"
    seen = run_behind_a_break(stormy, notebook, code, stormy.proxy.hole, peak)
    lines = printed(seen).split()
    assert len(lines) == count
    assert lines == list(map(str, range(count)))
    print(f"{count} lines: {peak}, {len(seen)} messages")
    assert peak.of["keeper"] < 64 * MB


@pytest.mark.long
def test_every_line_that_is_flushed_comes_when_the_line_was_stuck(stormy, notebook, peak):
    code = "for i in range(100_000): print(i, flush=True)"
    seen = run_behind_a_break(stormy, notebook, code, stormy.proxy.cut, peak)
    assert printed(seen).split() == list(map(str, range(100_000)))
    print(f"100,000 flushed lines: {peak}, {len(seen)} messages")
    assert peak.of["keeper"] < 64 * MB


def test_an_interrupt_overtakes_a_display_of_50_mb(stormy, notebook, peak):
    """The goal is a round trip and a second; the display takes more than ten."""
    stormy.proxy.delay, stormy.proxy.rate = 0.125, 4_000_000.0
    request = notebook.client.execute(
        "import pathlib, time\n"
        "display({'text/plain': 'x' * 50_000_000}, raw=True)\n"
        "pathlib.Path('shown').touch()\n"
        "try: time.sleep(600)\n"
        "finally: pathlib.Path('interrupted').touch()"
    )
    until(lambda: (stormy.home / "shown").exists())
    begun = time.monotonic()
    notebook.manager.interrupt_kernel()
    until(lambda: (stormy.home / "interrupted").exists())
    seconds = time.monotonic() - begun
    for name in ("shown", "interrupted"):
        (stormy.home / name).unlink()
    _, down = stormy.proxy.count()
    assert down < 50_000_000, "it did not wait for the display"
    stormy.proxy.delay = stormy.proxy.rate = 0.0
    seen = notebook.until_idle(request)
    (shown,) = [m["content"]["data"]["text/plain"] for m in seen if m["msg_type"] == "display_data"]
    assert len(shown) == 50_000_000
    peak.look()
    print(f"interrupted after {seconds:.2f} s with {50 - down // 1_000_000} MB waiting; {peak}")
    assert [m["content"]["ename"] for m in seen if m["msg_type"] == "error"] == [
        "KeyboardInterrupt"
    ]

"""From a killed server's first answer to the first new line in the tab that stayed open.

A cell prints every 50 ms on an emulated TPU; Chromium shows it in JupyterLab. The server is killed
with SIGKILL and started again, in turn.

    python benchmarks/restart.py [--rounds N]
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "browser"))
from _kernel_ways import Emulator
from _results import write
from lab_server import chromium
from notebook_tabs import cell_of, lab_beside, open_notebook, run_cell, write_notebook
from playwright.sync_api import expect, sync_playwright

if TYPE_CHECKING:
    from adoption_server import Server
    from playwright.sync_api import Page

HERE = Path(__file__).resolve().parent
GOAL = 1.0  # seconds
#: Notes when each line is shown; seconds since the epoch, as the server's first answer.
WATCH = """
cell => {
  window.shown = [];
  let length = 0;
  const look = () => {
    const now = cell.querySelector('.jp-OutputArea')?.textContent.length ?? 0;
    if (now > length) window.shown.push(Date.now() / 1000);
    length = now;
  };
  new MutationObserver(look).observe(cell, {childList: true, characterData: true, subtree: true});
}
"""
CODE = "import time\nfor i in range(10**6):\n    print('line', i, flush=True); time.sleep(0.05)"


def first_answer(server: Server) -> float:
    """Starts the server; when it answered for the first time, whatever that was."""
    server.start(wait=False)
    while True:
        try:
            urllib.request.urlopen(f"{server.url}/api", timeout=60).close()
        except urllib.error.HTTPError:
            pass
        except OSError:
            time.sleep(0.005)
            continue
        return time.time()


def measure(server: Server, page: Page) -> float:
    """Seconds, of one restart."""
    server.kill()
    page.wait_for_timeout(500)  # what came before the end is shown
    count = page.evaluate("shown.length")
    answered = first_answer(server)
    page.wait_for_function("count => shown.length > count", arg=count, timeout=60_000)
    took = page.evaluate("count => shown[count]", count) - answered
    page.wait_for_timeout(2000)  # it goes on
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    rounds = parser.parse_args().rounds
    expect.set_options(timeout=60_000)
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as name:
        emulator = Emulator(Path(name, "emulator"))
        try:
            with (
                lab_beside(emulator, Path(name, "lab"), sys.executable, tpu="bench") as (
                    server,
                    spec,
                ),
                sync_playwright() as playwright,
                playwright.chromium.launch(
                    executable_path=chromium(), args=["--no-sandbox"]
                ) as browser,
            ):
                write_notebook(server, "lines.ipynb", spec, CODE)
                page = open_notebook(browser.new_context(), server, "lines.ipynb")
                run_cell(page)
                expect(cell_of(page)).to_contain_text("line 20\n")
                cell_of(page).evaluate(WATCH)
                took = [measure(server, page) for _ in range(rounds)]
                dialogs = page.get_by_role("dialog", name="Server Connection Error").count()
                for session in server.request("GET", "/api/sessions"):
                    server.request("DELETE", f"/api/sessions/{session['id']}")
        finally:
            emulator.close()
    middle = statistics.median(took)
    print(" ".join(f"{seconds:.2f}" for seconds in took), "s")
    print(f"median {middle:.2f} s   {'≤' if max(took) <= GOAL else 'not ≤'} {GOAL:g}, all of them")
    print(f"dialogs about the connection at the end: {dialogs}; load: {os.getloadavg()[0]:.1f}")
    write("restart", n=rounds, unit="s", goal=GOAL, results=took)


if __name__ == "__main__":
    main()

"""A notebook in VS Code: `1+1` beside JupyterLab on one server, and the first line after a reload.

code-server and JupyterLab are shown by one Chromium, on one server with one emulated TPU; they take
turns. After a reload it is noted when VS Code began to activate the extension, and when a line is
shown that no window had shown before. `make test-vscode` installs code-server.

    python benchmarks/vscode.py [--rounds N] [--reloads N]
"""

from __future__ import annotations

import argparse
import contextlib
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "browser"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "vscode"))
from _kernel_ways import Emulator
from _results import summaries, write
from code_server import (
    FOLDER,
    CodeServer,
    Notebook,
    Window,
    build_vsix,
    install_extensions,
    is_installed,
    notebook,
)
from lab_server import WINDOW, chromium
from notebook_tabs import cell_of, lab_beside, open_notebook, run_cell, write_notebook
from playwright.sync_api import expect, sync_playwright
from waiting import until

if TYPE_CHECKING:
    from adoption_server import Server
    from playwright.sync_api import BrowserContext, Locator

#: Times of VS Code beside JupyterLab; seconds from the activation to the first line after a reload.
GOAL, GOAL_RELOAD = 1.1, 0.5
#: In each frame: when a key was pressed, and when each longest text of it with "line N" was shown.
WATCH = r"""
window.keys = [];
window.lines = [];
const now = () => (performance.timeOrigin + performance.now()) / 1000;
addEventListener('keydown', () => keys.push(now()), true);
let last = -1;
const look = () => {
  const shown = document.body.textContent.match(/line \d+/g) ?? [];
  const line = Math.max(-1, ...shown.map(text => Number(text.slice(5))));
  if (line > last) {
    last = line;
    lines.push([line, now()]);
  }
};
let body = null; // VS Code writes that of its frames later
setInterval(() => {
  if (document.body && document.body !== body) {
    body = document.body;
    look();
    new MutationObserver(look).observe(
      body, {childList: true, characterData: true, subtree: true}
    );
  }
}, 10);
"""
#: Each run shows another number. What is executed is as small as `1+1`.
SMALL = "n = n + 1 if 'n' in vars() else 0\nprint('line', n)"
LONG = "import time\nfor n in range(100_000): print('line', n, flush=True); time.sleep(0.05)"
ACTIVATES = re.compile(r"^(\S+ \S+) .*ExtensionService#_doActivateExtension jupyter-tpu", re.M)


def lines(frame: Locator) -> list[list[float]]:
    """The numbers that *frame* has shown, and when: seconds since the epoch."""
    return frame.evaluate("() => window.lines")


def small_cell(run: Callable[[], None], keys: Callable[[], list[float]], frame: Locator) -> float:
    """Seconds from the last key to the output of a cell."""
    count = len(lines(frame))
    run()
    until(lambda: len(lines(frame)) > count, 60)
    return lines(frame)[count][1] - keys()[-1]


def in_lab(context: BrowserContext, server: Server, spec: str) -> Callable[[], float]:
    write_notebook(server, "lab.ipynb", spec, SMALL)
    page = open_notebook(context, server, "lab.ipynb")
    run_cell(page)
    expect(cell_of(page)).to_contain_text("line 0")
    frame = page.locator("body")

    def run() -> None:
        cell_of(page).locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")

    return lambda: small_cell(run, lambda: page.evaluate("window.keys"), frame)


def in_vscode(window: Window, path: Path, tpu: str) -> Callable[[], float]:
    book = Notebook(window, path, tpu)
    book.run_all()
    book.wait_line(0)
    book.wait_idle()

    def run() -> None:
        window.page.locator(".cell .view-lines:visible").first.click()
        window.page.keyboard.press("Shift+Enter")

    return lambda: small_cell(run, lambda: window.page.evaluate("window.keys"), window.output())


def activated(server: CodeServer, after: float) -> float:
    """When VS Code began to activate the extension."""

    def times() -> list[float]:
        logs = server.log.parent.glob("user/logs/*/exthost*/remoteexthost.log")
        said = [time for log in logs for time in ACTIVATES.findall(log.read_text())]
        found = [datetime.fromisoformat(time).timestamp() for time in said]
        return [time for time in found if time > after]

    return min(until(times, 60))


def reload(window: Window, book: Notebook) -> tuple[float, float]:
    """Seconds from the activation and from the page's begin to a line that was not shown before."""
    shown = book.last_line()
    before = time.time()
    window.reload()
    begun = window.page.evaluate("performance.timeOrigin / 1000")
    book.shown()
    # What was shown when the window went is in its backup, and is shown before.
    until(lambda: book.last_line() > shown, 60)
    at = activated(window.server, before)
    first = next(seen for line, seen in lines(window.output()) if line > shown and seen > at)
    return first - at, first - begun


def activation(context: BrowserContext, server: CodeServer) -> float:
    """Milliseconds, as VS Code lists them, in a window whose other extensions are there already."""
    window = Window(context.new_page(), server)
    page = window.page
    page.goto(f"{server.url}/?ew=true")
    page.wait_for_timeout(20_000)
    page.get_by_role("tab", name="Cloud TPU").first.click()
    expect(window.row("bench")).to_be_visible()
    window.command("Developer: Show Running Extensions")
    row = page.locator(".extension", has_text="Jupyter TPU")
    took = float(re.findall(r"Activation: (\d+)ms", row.inner_text())[0])
    page.close()
    return took


def measure(
    context: BrowserContext, server: Server, spec: str, code: CodeServer, rounds: int, reloads: int
) -> dict[str, dict[str, list[float]]]:
    """Each figure of each way."""
    context.add_init_script(WATCH)
    lab = in_lab(context, server, spec)
    window = Window(context.new_page(), code)
    window.open(code.workspace)
    ours = in_vscode(window, notebook(code.workspace / "small.ipynb", SMALL), "bench")
    cells: dict[str, list[float]] = {"VS Code": [], "JupyterLab": []}
    for _ in range(rounds):
        cells["VS Code"].append(1000 * ours())
        cells["JupyterLab"].append(1000 * lab())
    took = activation(context, code)
    book = Notebook(window, notebook(code.workspace / "long.ipynb", LONG), "bench")
    book.run_all()
    book.wait_line(20)
    after = [reload(window, book) for _ in range(reloads)]
    window.page.locator(".codicon-notebook-stop:visible").first.click()
    book.wait_idle()
    results = {way: {"1+1, ms": values} for way, values in cells.items()}
    results["VS Code"] |= {
        "first line after activation, s": [first for first, _ in after],
        "first line after the page began, s": [first for _, first in after],
        "activation, ms": [took],
    }
    return results


def report(results: dict[str, dict[str, list[float]]]) -> None:
    for way, figures in results.items():
        for what, values in figures.items():
            print(f"{way:12}{what:40}{statistics.median(values):8.2f}  max {max(values):.2f}")
    ours, lab = (statistics.median(results[way]["1+1, ms"]) for way in ("VS Code", "JupyterLab"))
    print(f"1+1 in VS Code: {ours / lab:.2f}× of JupyterLab, goal {GOAL:g}×")
    print(f"A reload: goal {GOAL_RELOAD:g} s after the activation")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30, help="cells of each")
    parser.add_argument("--reloads", type=int, default=5)
    options = parser.parse_args()
    if not is_installed():
        print(f"SKIPPED FOR WANT OF code-server in {FOLDER}: make test-vscode")
        return
    expect.set_options(timeout=60_000)
    with (
        tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as name,
        contextlib.closing(Emulator(Path(name, "emulator"))) as emulator,
        lab_beside(emulator, Path(name, "lab"), sys.executable, tpu="bench") as (server, spec),
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"]) as browser,
    ):
        folder = Path(name)
        extensions = install_extensions(folder / "extensions", build_vsix(folder))
        code = CodeServer(
            folder / "vscode",
            extensions,
            settings={"jupyterTpu.python": sys.executable},
            variables={**server.environment, "JUPYTER_TOKEN": server.token},
        )
        try:
            context = browser.new_context(**WINDOW)
            results = measure(context, server, spec, code, options.rounds, options.reloads)
        finally:
            code.stop()
        server.end_sessions()
    report(results)
    write("vscode", n=options.rounds, goal=GOAL, results=summaries(results))


if __name__ == "__main__":
    main()

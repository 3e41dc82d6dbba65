"""A JupyterLab beside an emulator of its own process, which is killed and started again, and the
tabs that show a notebook of it.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from adoption_server import Server
from lab_server import LAB_PYTHON, UNCHECKED, chromium
from playwright.sync_api import BrowserContext, Locator, Page, expect
from waiting import until

OUT = Path(__file__).parent / "out"
LINES = 150
EXPECTED = [f"line {number} of {LINES}" for number in range(LINES)]
CODE = (
    "import time\n"
    f"for i in range({LINES}):\n"
    f"    print('line', i, 'of', {LINES}, flush=True)\n"
    "    time.sleep(0.08)\n"
)


@contextmanager
def lab_beside(
    emulator: Any, folder: Path, python: str, *options: str, tpu: str
) -> Iterator[tuple[Server, str]]:
    """A JupyterLab of *python*, and the kernelspec of *tpu*, which is made on *emulator*."""
    if chromium() is None:
        pytest.skip("SKIPPED FOR WANT OF chromium: install it, or say where it is: CHROMIUM_PATH")
    settings = folder / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    news = {"fetchNews": "false", "checkForUpdates": False}
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(news))
    # Where this environment's extensions are, for an environment that only adds some.
    paths = {
        "JUPYTER_CONFIG_PATH": f"{sys.prefix}/etc/jupyter",
        "JUPYTER_PATH": f"{sys.prefix}/share/jupyter",
    }
    server = Server(
        folder,
        {
            **emulator.environment,
            "HOME": str(folder),
            **({} if python == LAB_PYTHON else paths),
        },
        f"--LabApp.user_settings_dir={settings.parents[1]}",
        f"--LabApp.workspaces_dir={folder / 'workspaces'}",
        "--LabApp.news_url=None",
        "--no-browser",
        UNCHECKED,
        *options,
        module="jupyterlab",
        python=python,
    )
    with server:
        yield server, server.connect_tpu(tpu)
        if tpu in [one["name"] for one in server.tpu("GET", "tpus")["tpus"]]:
            server.delete_tpu(tpu)


def write_notebook(server: Server, name: str, spec: str, code: str = CODE) -> None:
    cell = {
        "cell_type": "code",
        "id": "a-cell-of-lines",
        "metadata": {},
        "source": code,
        "outputs": [],
        "execution_count": None,
    }
    kernelspec = {"name": spec, "display_name": spec, "language": "python"}
    notebook = {
        "cells": [cell],
        "metadata": {"kernelspec": kernelspec},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    (server.root / name).write_text(json.dumps(notebook))


def open_notebook(context: BrowserContext, server: Server, name: str) -> Page:
    """In another tab, and in a workspace of its own, as JupyterLab has it."""
    page = context.new_page()
    # On a busy machine a shared document is late, and loads behind a dialog that asks whether to
    # wait.
    waiting = page.get_by_role("button", name="Continue waiting")
    page.add_locator_handler(waiting, lambda button: button.click())
    workspace = f"tab-{len(context.pages)}"
    page.goto(f"{server.url}/lab/workspaces/{workspace}/tree/{name}?reset&token={server.token}")
    expect(cell_of(page)).to_be_visible()
    return page


def run_cell(page: Page) -> None:
    # JupyterLab drops what is run before there is a kernel.
    expect(page.get_by_text(re.compile(r"\| Idle$"))).to_be_visible()
    cell_of(page).locator(".cm-content").click()
    page.keyboard.press("Shift+Enter")


def session_of(server: Server, name: str) -> dict[str, Any]:
    [session] = [s for s in server.request("GET", "/api/sessions") if s["path"] == name]
    return session


def cell_of(page: Page) -> Locator:
    return page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell").first


def lines_of(page: Page) -> list[str]:
    shown = cell_of(page).locator(".jp-OutputArea-output").all_text_contents()
    return re.findall(r"line \d+ of \d+", "".join(shown))


def wait_for_lines(page: Page, count: int, limit: float = 60.0) -> float:
    """Waits until so many lines are shown; returns when that was."""
    until(lambda: len(lines_of(page)) >= count, limit, lambda: str(lines_of(page)[-3:]))
    return time.monotonic()


def saved_lines(page: Page, path: Path) -> list[str]:
    """Saves the notebook and gives the lines in the file."""
    before = path.stat().st_mtime_ns
    # JupyterLab said so, if one of its polls fell into the time when the server was away.
    expect(page.get_by_role("dialog", name="Server Connection Error")).to_have_count(0)
    page.keyboard.press("Control+s")
    overwrite = page.get_by_role("dialog").get_by_role("button", name="Overwrite")

    def saved() -> dict[str, Any] | None:
        if overwrite.is_visible():
            overwrite.click()  # the other tab has saved it, too
        if path.stat().st_mtime_ns == before:
            return None
        try:
            return json.loads(path.read_text())["cells"][0]
        except ValueError:  # it is being written
            return None

    cell = until(saved)
    text = "".join("".join(output.get("text", "")) for output in cell["outputs"])
    assert cell["execution_count"] == 1
    return text.split("\n")[:-1]

"""The view, notebooks and hunts of the extension in a real VS Code, as its user sees it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from code_server import (
    CodeServer,
    Notebook,
    Window,
    build_vsix,
    finish,
    jupyter_servers,
    needs_jupyter,
    notebook,
)
from playwright.sync_api import expect
from ports import free_port

CELL = "import jax, platform\nprint('runs on', platform.node(), len(jax.devices()))"


def test_the_package_is_small_and_has_what_marketplaces_show(tmp_path: Path) -> None:
    path = build_vsix(tmp_path)
    assert path.stat().st_size < 1_000_000
    with ZipFile(path) as package:
        names = {name.removeprefix("extension/").lower() for name in package.namelist()}
        assert {"readme.md", "changelog.md", "license.txt", "media/icon.png"} < names
        assert not [name for name in names if name.endswith((".ts", ".map"))]


# ---- before there is a server --------------------------------------------------------------------


def test_nothing_starts_in_an_untrusted_workspace(
    start_vscode: Callable[..., CodeServer], open_window: Callable[..., Window], tmp_path: Path
) -> None:
    """The Python that the extension would run leaves a mark."""
    mark = tmp_path / "ran"
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\ntouch {mark}\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    server = start_vscode({"jupyterTpu.python": str(python)}, trusting=False)
    window = open_window(server, server.workspace)
    expect(window.view).to_contain_text("Nothing is started in a workspace that you do not trust")
    window.command("TPU: Create")
    expect(window.toasts.first).to_contain_text("Trust this workspace first")
    assert not mark.exists()


# ---- with a server -------------------------------------------------------------------------------


def test_the_server_is_started_and_a_tpu_is_created_and_deleted_after_questions(
    window: Window, variables: dict[str, str]
) -> None:
    window.view.get_by_role("button", name="Start Jupyter Server").click()
    window.view.get_by_role("button", name="Create TPU").click()
    window.pick("TPU Type", "v5litepod-4")
    window.pick("Zone for", "us-central1-a")
    window.pick("v5litepod-4 · ", "On demand")
    window.enter("Name", "Not A Name")
    expect(window.picker).to_contain_text("lower-case letter")
    window.enter("Name", "from-vscode")
    expect(window.row("from-vscode")).to_contain_text("Connected", timeout=300_000)
    expect(window.toasts.filter(has_text="Connected from-vscode")).to_be_visible()
    assert len(jupyter_servers(variables)) == 1
    window.act("from-vscode", "Delete")
    expect(window.dialog).to_contain_text(
        "This permanently deletes from-vscode in us-central1-a, its disk"
    )
    window.dialog.get_by_role("button", name="Delete").click()
    expect(window.row("from-vscode")).to_have_count(0)


def test_two_windows_use_one_server_and_show_the_same(
    vscode: CodeServer, open_window: Callable[..., Window], tpu: str, variables: dict[str, str]
) -> None:
    first, second = (open_window(vscode, vscode.workspace) for _ in range(2))
    for window in (first, second):
        expect(window.row(tpu)).to_contain_text("Connected")
    assert len(jupyter_servers(variables)) == 1


@needs_jupyter
def test_a_cell_runs_on_a_tpu_whose_kernel_shows_no_path_of_this_computer(
    window: Window, tpu: str
) -> None:
    notebook(window.server.workspace / "cell.ipynb", CELL)
    window.open_file("cell.ipynb")
    window.select_kernel("Cloud TPUs")
    option = window.picker.get_by_role("option", name=f"· {tpu}")
    if option.count() == 0:  # the Jupyter extension keeps the list from before there was the TPU
        window.picker.locator(".codicon-refresh").click()
    expect(option).to_be_visible()
    assert "python" not in option.inner_text().lower().replace("python 3.", "")
    option.click()
    window.run_all()
    expect(window.output()).to_contain_text("runs on t1v-n-")
    expect(window.output()).to_contain_text("-w-0 4")
    window.expand(tpu)
    expect(window.row("cell.ipynb")).to_contain_text("idle")


@needs_jupyter
def test_the_kernel_of_a_stopped_tpu_says_why_it_does_not_start(
    window: Window, rest: Callable[..., Any], tpu: str
) -> None:
    finish(rest, rest("POST", f"tpus/{tpu}/stop", {"end_kernels": True, "end_jobs": True}))
    try:
        expect(window.row(tpu)).to_contain_text("Stopped")
        notebook(window.server.workspace / "stopped.ipynb", CELL)
        window.open_file("stopped.ipynb")
        window.select_kernel("Cloud TPUs", f"· {tpu}")
        window.run_all()
        why = window.toasts.filter(has_text=f"{tpu} is stopped. Start it first.")
        expect(why).to_be_visible()
    finally:
        finish(rest, rest("POST", f"tpus/{tpu}/start", {}))


def test_a_hunt_is_followed_and_stopped_in_the_tree(
    window: Window, tpu: str, faults: Callable[..., Any]
) -> None:
    faults(kind="no-capacity", count=1000)
    window.command("TPU: Hunt for Capacity")
    window.pick("TPU Type", "v5litepod-8")
    zones = window.picker.get_by_role("checkbox", name="emulated: free")
    expect(zones.first).to_be_visible()  # the first one is suggested
    window.picker.get_by_role("button", name="OK").click()
    window.picker.get_by_role("option", name="Spot").first.click()
    window.enter("Name", "wanted")
    hunt = window.row("Hunting for wanted")
    expect(hunt).to_be_visible()
    expect(window.row("1. v5litepod-8 · Spot · ").first).to_be_visible()
    expect(window.page.locator(".statusbar")).to_contain_text("hunting")
    window.page.screenshot(path=Path(__file__).parent / "out" / "hunt.png")
    window.act("Hunting for wanted", "Cancel Operation")
    expect(window.dialog).to_contain_text("Stop the hunt for wanted?")
    window.dialog.get_by_role("button", name="Stop Hunt").click()
    expect(hunt).to_have_count(0)


def test_behind_a_proxy_the_tree_and_notebooks_work_without_microsofts_extension(
    start_vscode: Callable[..., CodeServer], open_window: Callable[..., Window], tpu: str
) -> None:
    """The proxy is one that is not there: what goes to it fails."""
    proxy = f"http://127.0.0.1:{free_port()}"
    server = start_vscode(
        {"http.proxy": proxy}, variables={"HTTP_PROXY": proxy, "http_proxy": proxy}
    )
    path = notebook(server.workspace / "proxy.ipynb", "import platform; print(platform.node())")
    window = open_window(server, server.workspace)
    expect(window.row(tpu)).to_contain_text("Connected")
    Notebook(window, path, tpu).run_all()
    expect(window.output()).to_contain_text("t1v-n-")

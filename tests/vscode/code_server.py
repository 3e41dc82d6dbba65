"""A real VS Code (code-server) with our extension, in folders of its own, and a page of it.

``CODE_SERVER`` names a folder where code-server is installed; else `scripts/code-server` has put
one into .code-server. ``JUPYTER_VSIX`` names a build of Microsoft's Jupyter extension.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Error, Locator, Page, TimeoutError, expect
from ports import free_port
from waiting import until

ROOT = Path(__file__).parents[2]
FOLDER = Path(os.environ.get("CODE_SERVER") or ROOT / ".code-server")
#: Microsoft's Jupyter extension, which can't be had from a registry; None: without it.
JUPYTER_VSIX = os.environ.get("JUPYTER_VSIX")
JUPYTER_ID = "ms-toolsai.jupyter"
PROGRAM = FOLDER / "node_modules" / ".bin" / "code-server"
needs_jupyter = pytest.mark.skipif(
    JUPYTER_VSIX is None,
    reason="SKIPPED FOR WANT OF Microsoft's Jupyter extension: JUPYTER_VSIX names a build of it",
)
#: Those of this process by which another server, cloud or proxy would be found.
FOREIGN = ("JUPYTER_", "CLOUDSDK_", "GOOGLE_", "GCLOUD_", "VSCODE_")


class CodeServer:
    """A running code-server.

    Parameters
    ----------
    folder: where all its files are; made by this.
    extensions: a folder with installed extensions, which several can share: `install_extensions`.
    settings: of this extension, on the machine where it runs. VS Code reads some of them nowhere
        else when the window is in a browser.
    variables: environment variables, for it and what it starts.
    trusting: whether every workspace is trusted without a question.
    jupyter: whether Microsoft's extension is among them.
    language: VS Code's display language; "": English.
    """

    def __init__(
        self,
        folder: Path,
        extensions: Path,
        *,
        settings: Mapping[str, object],
        variables: Mapping[str, str],
        trusting: bool = True,
        jupyter: bool = False,
        language: str = "",
    ) -> None:
        self.workspace = folder / "workspace"
        self.home = folder / "home"
        self.log = folder / "code-server.log"
        user = folder / "user" / "User"
        for path in (self.workspace, self.home, user):
            path.mkdir(parents=True)
        quiet = {
            "workbench.startupEditor": "none",
            "workbench.tips.enabled": False,
            "telemetry.telemetryLevel": "off",
            "extensions.ignoreRecommendations": True,
            "security.workspace.trust.startupPrompt": "never",
            "security.workspace.trust.banner": "never",
            "git.enabled": False,
            "files.autoSave": "off",  # as in a window of its own
            "chat.disableAIFeatures": True,
            "terminal.integrated.gpuAcceleration": "off",  # its text is in the page then
            "remote.autoForwardPorts": False,
            "workbench.secondarySideBar.defaultVisibility": "hidden",
        }
        machine = folder / "user" / "Machine"
        machine.mkdir()
        (user / "settings.json").write_text(json.dumps(quiet))
        (machine / "settings.json").write_text(json.dumps(settings))
        if language:
            _add_language(folder / "user", language)
        self.environment = environment(self.home, variables)
        self.port = free_port()
        command = [
            str(PROGRAM),
            f"--user-data-dir={folder / 'user'}",
            f"--extensions-dir={extensions}",
            f"--bind-addr=127.0.0.1:{self.port}",
            *("--auth", "none", "--disable-telemetry", "--disable-update-check"),
            *("--disable-getting-started-override",),
            *(["--disable-workspace-trust"] if trusting else []),
            *(["--enable-proposed-api", JUPYTER_ID] if jupyter else []),
            *(["--locale", language] if language else []),
        ]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                env=self.environment,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            until(self._answers, 120, self.log.read_text)
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(30)

    def _answers(self) -> bool:
        assert self._process.poll() is None, self.log.read_text()
        try:
            urllib.request.urlopen(f"{self.url}/healthz", timeout=30).close()
        except OSError:
            return False
        return True


def environment(home: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of code-server: its Node and libraries, and *variables*."""
    node = FOLDER / "node_modules" / "node" / "bin"
    libraries = [str(path) for path in FOLDER.glob("system/usr/lib/*-linux-gnu")]
    own = {name: v for name, v in os.environ.items() if not name.startswith(FOREIGN)}
    return {
        **own,
        **variables,
        "HOME": str(home),
        "PATH": f"{node}:{variables.get('PATH', own['PATH'])}",
        "LD_LIBRARY_PATH": ":".join([*libraries, own.get("LD_LIBRARY_PATH", "")]),
    }


def is_installed() -> bool:
    return PROGRAM.exists()


def install_extensions(folder: Path, *packages: Path) -> Path:
    """A folder with what these .vsix files have."""
    for package in packages:
        subprocess.run(
            [
                *(PROGRAM, f"--user-data-dir={folder / 'user'}"),
                *(f"--extensions-dir={folder / 'extensions'}", "--install-extension", package),
            ],
            env=environment(folder, {}),
            check=True,
            capture_output=True,
            timeout=300,
        )
    return folder / "extensions"


def _add_language(user: Path, language: str) -> None:
    """What VS Code has of an installed language pack, here one without texts: VS Code itself stays
    English, and extensions have *language*.
    """
    texts = user / "no-texts.json"
    texts.write_text(json.dumps({"version": "1.0.0", "contents": {}}))
    extension = {"extensionIdentifier": {"id": f"test.{language}"}, "version": "1.0.0"}
    pack = {"hash": "0", "extensions": [extension], "translations": {"vscode": str(texts)}}
    (user / "languagepacks.json").write_text(json.dumps({language: {**pack, "label": language}}))


def build_vsix(folder: Path) -> Path:
    """The extension as users get it, from this checkout."""
    path = folder / "jupyter-tpu.vsix"
    node = FOLDER / "node_modules" / "node" / "bin"
    subprocess.run(
        ["make", "--no-print-directory", "vsix", f"VSIX={path}"],
        cwd=ROOT,
        env={**os.environ, "PATH": f"{os.environ['PATH']}:{node}"},
        check=True,
        capture_output=True,
        timeout=300,
    )
    return path


class Window:
    """A window of VS Code in a browser's page, as its user sees it."""

    def __init__(self, page: Page, server: CodeServer) -> None:
        self.page = page
        self.server = server
        self.tree = page.get_by_role("tree", name="TPU")  # "TPUs", in English
        self.view = page.locator("#workbench\\.view\\.extension\\.jupyterTpu")
        self.picker = page.locator(".quick-input-widget:visible")
        self.toasts = page.locator(".notification-toast")
        self.dialog = page.locator(".monaco-dialog-box")

    def open(self, folder: Path | None = None) -> None:
        """Opens VS Code on *folder*, or without a workspace, and its view of TPUs."""
        query = f"?folder={folder}" if folder else "?ew=true"
        self.page.goto(f"{self.server.url}/{query}", timeout=120_000)
        self.page.locator(".monaco-workbench").wait_for(timeout=120_000)
        self.page.get_by_role("tab", name="Cloud TPU").first.click(timeout=120_000)
        expect(self.view).to_be_visible(timeout=60_000)

    def row(self, name: str) -> Locator:
        """The row of the tree whose label begins with *name*."""
        return self.tree.get_by_role("treeitem", name=re.compile(f"^{re.escape(name)}"))

    def expand(self, name: str) -> None:
        row = self.row(name).first
        expect(row).to_be_visible(timeout=120_000)
        if row.get_attribute("aria-expanded") == "false":
            row.locator(".monaco-tl-twistie").click()
        expect(row).to_have_attribute("aria-expanded", "true")

    def act(self, name: str, entry: str) -> None:
        """Chooses an entry of the menu of a row."""
        item = self.page.get_by_role("menuitem", name=entry, exact=True)

        def opened() -> bool:
            """Not if a row above has gone just then, and another row was clicked."""
            self.page.keyboard.press("Escape")
            self.row(name).first.click(button="right")
            self.page.locator(".monaco-menu").first.wait_for()
            return item.count() > 0

        until(opened, 60, self.tree.inner_text)
        # A click may come too soon after the one that opened the menu.
        item.hover()
        self.page.keyboard.press("Enter")

    def command(self, name: str) -> None:
        """Runs a command by the palette."""
        self.page.keyboard.press("F1")
        self.picker.locator("input").first.fill(f">{name}")
        self.picker.get_by_role("option", name=name).first.click()

    def reload(self) -> None:
        """Reloads it as VS Code does, which stores before what is open: the browser would not."""
        with self.page.expect_event("domcontentloaded"):
            self.command("Developer: Reload Window")

    def asked(self, title: str) -> None:
        """Waits for the question *title*: VS Code uses one field for all, also for the next one."""
        expect(self.picker.locator(".quick-input-title")).to_contain_text(title)

    def pick(self, title: str, text: str) -> None:
        """Picks what *text* finds, when *title* is asked."""
        self.asked(title)
        self.picker.locator("input[type=text]").first.fill(text)
        self.picker.get_by_role("option", name=text).first.click()

    def enter(self, title: str, text: str) -> None:
        """Enters *text*, when *title* is asked."""
        self.asked(title)
        field = self.picker.locator("input").last
        field.fill(text)
        field.press("Enter")

    def open_file(self, name: str) -> None:
        """Opens a file of the workspace by its name."""
        self.page.keyboard.press("Control+p")
        self.picker.locator("input").first.fill(name)
        self.picker.get_by_role("option", name=name).first.click()

    def select_kernel(self, *path: str) -> None:
        """Selects a kernel of the notebook in front by what the kernel picker shows."""
        # Not a selected kernel's own row, which names its collection behind the kernel.
        first = self.picker.get_by_role("option", name=re.compile(f"^{re.escape(path[0])}"))

        # Where a kernel is selected already, also by the Jupyter extension itself.
        others = self.picker.get_by_role("option", name="Select Another Kernel")

        def offered() -> bool:
            self.page.keyboard.press("Escape")  # the list is not renewed while it is shown
            self.page.locator(".kernel-label:visible").click()
            if comes(first.or_(others)) and first.count() == 0:
                others.click()
            return comes(first)

        until(offered, 120, self.picker.inner_text)
        first.first.click()
        for text in path[1:]:
            self.picker.get_by_role("option", name=text).first.click()

    def run_all(self) -> None:
        self.page.locator(".codicon-notebook-execute-all:visible").click()

    def output(self) -> Locator:
        """The outputs of the notebook in front, which are in a frame of a frame."""
        # Those of other notebooks are far outside.
        front = self.page.locator('.notebookOverlay:not([style*="-50000px"]) iframe.webview.ready')
        frame = front.first.content_frame
        return frame.locator("#active-frame").content_frame.locator("#container")

    def terminal_text(self) -> str:
        """What the terminal shows."""
        rows = self.page.locator(".terminal-wrapper.active .xterm-rows")
        return rows.inner_text().replace("\xa0", " ") if rows.count() else ""


class Notebook:
    """A notebook in front of a window, on a kernel of *tpu*."""

    def __init__(self, window: Window, path: Path, tpu: str) -> None:
        self.window, self.path, self.tpu = window, path, tpu
        self.page = window.page
        window.open_file(path.name)
        self.shown()

    def shown(self) -> None:
        """Waits until it has its kernel, also after a reload."""
        expect(self.page.locator(".kernel-label:visible")).to_contain_text(f"· {self.tpu}")

    def text(self) -> str:
        """What the outputs show. VS Code leaves out the middle of a long one."""
        with contextlib.suppress(Error):  # the page is being reloaded
            return self.window.output().inner_text(timeout=5000)
        return ""

    def last_line(self) -> int:
        """The number of the last "line N" that is shown; -1: there is none."""
        return max(map(int, re.findall(r"line (\d+)", self.text())), default=-1)

    def wait_line(self, number: int) -> None:
        until(lambda: self.last_line() >= number, 180, self.text)

    def wait_idle(self) -> None:
        """Waits until no cell runs."""
        idle = self.page.locator(".codicon-notebook-execute-all:visible")
        expect(idle).to_be_visible(timeout=300_000)

    def run_all(self) -> None:
        self.window.run_all()
        expect(self.page.locator(".codicon-notebook-stop:visible").first).to_be_visible()

    def save(self) -> list[dict[str, Any]]:
        """Saves it, and gives the cells that its file has then. While a cell runs, that is what it
        had printed.
        """
        dirty = self.page.locator(".tabs-container .tab.active.dirty")
        runs = self.page.locator(".codicon-notebook-stop:visible")

        def saved() -> bool:
            before = self.path.stat().st_mtime_ns
            self.page.locator(".tab.active").click()
            self.page.keyboard.press("Control+s")
            # A large one is written for seconds, and a key may go elsewhere.
            with contextlib.suppress(AssertionError, ValueError):  # it is being written
                until(lambda: self.path.stat().st_mtime_ns != before and self.cells(), 10)
                return runs.count() > 0 or not comes(dirty, 1)
            return False

        until(saved, 60)
        return self.cells()

    def cells(self) -> list[dict[str, Any]]:
        return list(json.loads(self.path.read_text())["cells"])


def printed(cell: dict[str, Any]) -> list[str]:
    """The lines that a cell of a notebook's file has printed."""
    texts = ["".join(output.get("text", "")) for output in cell["outputs"]]
    return "".join(texts).splitlines()


def comes(locator: Locator, limit: float = 5.0) -> bool:
    """Whether something that *locator* finds is shown within *limit* seconds."""
    try:
        locator.first.wait_for(timeout=1000 * limit)
    except TimeoutError:
        return False
    return True


def notebook(path: Path, *sources: str) -> Path:
    """Writes a notebook with these code cells, whose ids are c0, c1 …"""
    empty: dict[str, Any] = {"cell_type": "code", "metadata": {}, "outputs": []}
    cells = [
        {**empty, "id": f"c{number}", "source": source, "execution_count": None}
        for number, source in enumerate(sources)
    ]
    content = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(content))
    return path


# ---- Jupyter's side ------------------------------------------------------------------------------


def jupyter_servers(variables: dict[str, str]) -> list[Any]:
    """The running Jupyter servers of this user's folders."""
    from jupyter_tpu.fleet.servers import running_servers

    return running_servers(Path(variables["JUPYTER_RUNTIME_DIR"]))


def jupyter_variables(folder: Path) -> dict[str, str]:
    """The variables of a user whose files of Jupyter, gcloud and ours are in *folder*, new ones."""
    names = {
        "JUPYTER_TPU_DATA_DIR": "tpu",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "JUPYTER_CONFIG_DIR": "config",
        "IPYTHONDIR": "ipython",
        "CLOUDSDK_CONFIG": "gcloud",
    }
    for part in names.values():
        (folder / part).mkdir(mode=0o700)
    return {name: str(folder / part) for name, part in names.items()}


def end_servers(variables: dict[str, str]) -> None:
    """What VS Code has started outlives it, as it must."""
    for server in jupyter_servers(variables):
        os.kill(server.pid, signal.SIGTERM)


def server_of(variables: dict[str, str]) -> tuple[str, str]:
    """The URL and the token, as `jupyter tpu server` gives them to VS Code."""
    done = subprocess.run(
        [sys.executable, "-m", "jupyter_tpu.cli", "server", "--start", "--json"],
        env={**os.environ, **variables},
        check=True,
        capture_output=True,
        timeout=300,
    )
    answer = json.loads(done.stdout)
    return answer["url"], answer["token"]


def finish(rest: Callable[..., Any], operation: Any) -> Any:
    """Waits until an operation has been done, and gives its last state."""

    def ended() -> Any:
        now = rest("GET", f"operations/{operation['id']}")
        return now if now["state"] != "running" else None

    ended_operation = until(ended, 300, lambda: str(rest("GET", f"operations/{operation['id']}")))
    assert ended_operation["state"] == "done", ended_operation
    return ended_operation


def connected(rest: Callable[..., Any], name: str, type: str, zone: str, **fields: Any) -> str:
    """Makes a TPU, and waits until it is connected, which is an operation of its own."""
    body = {"name": name, "type": type, "zone": zone, "connect": {}, **fields}
    finish(rest, rest("POST", "tpus", body))

    def state() -> str:
        return str(rest("GET", f"tpus/{name}")["connection"])

    until(lambda: state() == "connected", 300, state)
    return name

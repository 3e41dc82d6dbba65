"""A JupyterLab with the extension and an emulator of its own, in folders of its own, and the panel
in a browser that looks at it. The tests use it, and the script that takes the pictures.

Token and XSRF protection are on, as for a user.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, expect
from ports import free_port
from waiting import until

#: A browser's window. An animation, such as that of a progress bar, takes a tenth of a core.
WINDOW: Any = {"viewport": {"width": 1280, "height": 900}, "reduced_motion": "reduce"}
#: An option without which each page that is opened starts Node.js, to check JupyterLab's build.
UNCHECKED = "--ServerApp.tornado_settings={'page_config_data': {'buildCheck': False}}"
#: Python of the environment whose JupyterLab is tested: this one, or another by `make test-oldest`.
LAB_PYTHON = os.environ.get("LAB_PYTHON", sys.executable)
#: Seconds: a first environment downloads JAX.
CONNECT = 240.0
#: Options with which a page can be told to change its theme.
SCRIPTABLE = ("--LabApp.expose_app_in_browser=True",)
#: Variables by which this process's own TPUs, projects or proxies of a Lab would be found.
FOREIGN = ("JUPYTER_TPU_", "CLOUDSDK_", "GOOGLE_", "GCLOUD_", "JUPYTERHUB_", "JUPYTERLAB_")


def chromium() -> str | None:
    """The browser: ``CHROMIUM_PATH`` or the system's; None if there is none."""
    return os.environ.get("CHROMIUM_PATH") or shutil.which("chromium") or shutil.which("chrome")


class LabServer:
    """A running server.

    Parameters
    ----------
    options: of JupyterLab.
    python: that of its environment.
    path: where it finds programs.

    Attributes
    ----------
    root: the folder that its file browser shows.
    log: the file of what it says.
    """

    def __init__(
        self,
        folder: Path,
        *,
        options: Sequence[str] = (),
        python: str | Path = LAB_PYTHON,
        path: str = os.environ["PATH"],
    ) -> None:
        self.root = folder / "root"
        self.log = folder / "lab.log"
        settings = folder / "settings"
        self.root.mkdir(parents=True)
        _quiet(settings)
        self.port = free_port()
        self.token = secrets.token_hex(16)
        folders = {
            "HOME": "home",
            "JUPYTER_TPU_DATA_DIR": "tpu",
            "JUPYTER_DATA_DIR": "data",
            "JUPYTER_RUNTIME_DIR": "runtime",
            "JUPYTER_CONFIG_DIR": "config",
            "IPYTHONDIR": "ipython",
            "CLOUDSDK_CONFIG": "gcloud",
        }
        own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        for name, part in folders.items():
            (folder / part).mkdir(mode=0o700, exist_ok=True)
            own[name] = str(folder / part)
        own["JUPYTER_TPU_PROJECT_SYNC"] = "off"  # but in the test that is about it
        command = [
            *(python, "-m", "jupyterlab", "--no-browser", "--allow-root"),
            *("--ServerApp.ip=127.0.0.1", f"--ServerApp.port={self.port}"),
            *("--ServerApp.port_retries=0", f"--ServerApp.root_dir={self.root}"),
            *(f"--LabApp.user_settings_dir={settings}", "--LabApp.news_url=None"),
            f"--LabApp.workspaces_dir={folder / 'workspaces'}",
            UNCHECKED,
            *options,
        ]
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                command,
                env={**own, "JUPYTER_TOKEN": self.token, "PATH": path},
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C in the tests is for the tests
            )
        try:
            self._wait_until_it_answers()
        except BaseException:
            self.stop()
            raise

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def end_kernels(self) -> None:
        """Shuts down all kernels of this server."""
        kernels = self.request("GET", "api/kernels")
        for kernel in kernels:
            self.request("DELETE", f"api/kernels/{kernel['id']}")

    def call(self, method: str, path: str, body: object = None) -> Any:
        """The decoded answer of a call of the extension's REST interface."""
        return self.request(method, f"jupyter-tpu/v1/{path}", body)

    def request(self, method: str, path: str, body: object = None) -> Any:
        """The decoded answer of a call of Jupyter Server's REST interface."""
        request = urllib.request.Request(
            f"{self.url}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {self.token}"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or "null")

    def finish(self, operation: dict[str, Any]) -> dict[str, Any]:
        """Waits for an operation and gives its last state."""
        path = f"operations/{operation['id']}"

        def ended() -> Any:
            now = self.call("GET", path)
            return now if now["state"] != "running" else None

        return until(ended, CONNECT, lambda: str(self.call("GET", path)))

    @contextlib.contextmanager
    def pod(self, name: str) -> Iterator[str]:
        """A connected TPU of two hosts, which is deleted after the block; its name."""
        body = {"name": name, "type": "v4-16", "zone": "us-central2-b"}
        assert self.finish(self.call("POST", "tpus", body))["state"] == "done"
        done = self.finish(self.call("POST", f"tpus/{name}/connect", {}))
        assert done["state"] == "done", done
        yield name
        self.finish(self.call("DELETE", f"tpus/{name}", {"end_kernels": True, "end_jobs": True}))

    def stop(self) -> None:
        """Ends it as Ctrl-C does, with its emulator."""
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(60)
            raise

    def _wait_until_it_answers(self) -> None:
        def answers() -> bool:
            assert self._process.poll() is None, self.log.read_text()
            try:
                urllib.request.urlopen(f"{self.url}/api", timeout=60).close()
            except OSError:
                return False
            return True

        until(answers, 120, self.log.read_text)


def _quiet(settings: Path) -> None:
    """Without this JupyterLab asks, over the panel, whether it may fetch news."""
    file = settings / "@jupyterlab/apputils-extension/notification.jupyterlab-settings"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"fetchNews": "false", "checkForUpdates": False}))


class LabPage:
    """JupyterLab in a browser's page, as its user sees it."""

    def __init__(self, page: Page, server: LabServer) -> None:
        self.page = page
        self.server = server
        self.panel = page.locator("#jp-tpu-panel")
        self.form = page.get_by_role("form", name="New TPU")

    def open(self) -> None:
        """Opens JupyterLab and the panel."""
        self.page.goto(f"{self.server.url}/lab?reset&token={self.server.token}")
        # The launcher takes the focus when JupyterLab is complete, whatever has it by then.
        complete = "document.activeElement?.closest('.jp-Launcher')"
        self.page.wait_for_function(complete, timeout=60_000)
        self.page.get_by_role("tab", name="TPU", exact=True).click(timeout=60_000)
        expect(self.panel).to_be_visible()

    def tpu(self, name: str) -> Locator:
        """A TPU's entry in the list."""
        return self.panel.get_by_role("listitem", name=name, exact=True)

    def open_page(self, name: str) -> Locator:
        """Opens a TPU's page in the main area, or brings it to the front."""
        self.tpu(name).get_by_role("button", name=name, exact=True).click()
        page = self.page.locator(".jp-tpu-Page:visible")
        expect(page.get_by_role("heading", name=name, exact=True)).to_be_visible()
        return page

    def state(self, name: str, word: str, *, timeout: float = 60.0) -> None:
        """Waits until a TPU shows a state; *timeout* in seconds."""
        states = self.tpu(name).locator(".jp-tpu-TPU-states")
        expect(states.get_by_text(word, exact=True)).to_be_visible(timeout=timeout * 1000)

    def open_form(self) -> None:
        """With the list as it was loaded: what may be done is known then."""
        self.panel.get_by_role("button", name="New TPU").first.click(timeout=60_000)
        expect(self.form.get_by_label("Type")).to_be_visible(timeout=60_000)

    def choose_type(self, name: str) -> None:
        """Finds a type in the open form by its name, and chooses it."""
        field = self.form.get_by_label("Type")
        field.click()  # opens the list, also where the name is there already
        field.fill(name)
        self.form.get_by_role("option").locator(f"text=/^{name} /").click()
        expect(field).to_have_value(name)

    def act(self, name: str, *path: str) -> None:
        """Chooses an entry of a TPU's menu, or of a submenu: *path* has its name, too."""
        self.tpu(name).get_by_role("button", name=f"Actions for {name}").click()
        for entry in path:
            self.page.get_by_role("menuitem", name=entry, exact=True).click()

    def run_cell(self, code: str, *, timeout: float = 60.0) -> Locator:
        """Runs *code* in the last cell of the notebook in front and gives its output."""
        notebook = self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden)")
        # JupyterLab drops what is run before there is a kernel.
        bar = self.page.locator("#jp-main-statusbar")
        expect(bar).to_contain_text("| Idle", timeout=timeout * 1000)
        cells = notebook.locator(".jp-CodeCell")
        cell = cells.nth(cells.count() - 1)  # running it appends another one
        cell.locator(".cm-content").click()
        self.page.keyboard.insert_text(code)
        self.page.keyboard.press("Shift+Enter")
        prompt = cell.locator(".jp-InputPrompt")
        expect(prompt).to_have_text(re.compile(r"\[\d+\]:"), timeout=timeout * 1000)
        return cell.locator(".jp-OutputArea-output")

    def set_theme(self, theme: str) -> None:
        """Changes the theme and waits for it; the server is SCRIPTABLE."""
        execute = "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})"
        self.page.evaluate(execute, theme)
        self.page.locator(f"body[data-jp-theme-name='{theme}']").wait_for(state="attached")
        self.page.locator("#jupyterlab-splash").wait_for(state="detached")

    def resize(self, width: int) -> None:
        """Makes the sidebar *width* pixels wide, with the mouse."""
        box = self.panel.bounding_box()
        handle = self.page.locator("#jp-main-split-panel > .lm-SplitPanel-handle")
        handle = handle.locator("visible=true").first
        grip = handle.bounding_box()
        x, y = grip["x"] + grip["width"] / 2, grip["y"] + grip["height"] / 2
        self.page.mouse.move(x, y)
        self.page.mouse.down()
        self.page.mouse.move(x + width - box["width"], y, steps=4)
        self.page.mouse.up()

"""VS Code with the extension, an emulator, and Chromium. For `make test-vscode` only."""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from code_server import (
    JUPYTER_VSIX,
    CodeServer,
    Window,
    build_vsix,
    connected,
    end_servers,
    finish,
    install_extensions,
    is_installed,
    jupyter_variables,
    server_of,
)
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

sys.path.insert(0, str(Path(__file__).parents[1] / "browser"))

from lab_server import WINDOW, chromium

# A limit is only there for what never comes: a page on a busy machine takes its time.
expect.set_options(timeout=90_000)
OUT = Path(__file__).parent / "out"


@pytest.fixture(scope="session")
def extensions(tmp_path_factory: pytest.TempPathFactory) -> Callable[[bool], Path]:
    """``extensions(jupyter)``: a folder with our extension, and with Microsoft's if it is had."""
    if not is_installed():
        pytest.skip("SKIPPED FOR WANT OF code-server: run `make test-vscode`")
    vsix = build_vsix(tmp_path_factory.mktemp("vsix"))

    @cache
    def installed(jupyter: bool) -> Path:
        more = [Path(JUPYTER_VSIX)] if jupyter and JUPYTER_VSIX else []
        return install_extensions(tmp_path_factory.mktemp("extensions"), vsix, *more)

    return installed


@pytest.fixture(scope="session")
def variables(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a user whose cloud is the emulator, with Jupyter's folders of its own."""
    variables = jupyter_variables(tmp_path_factory.mktemp("jupyter"))
    variables["JUPYTER_TPU_PROJECT_SYNC"] = "named"  # as if nothing else was said
    return {**variables, "JUPYTER_TPU_EMULATOR": str(emulator.state_file)}


@pytest.fixture(scope="session")
def start_vscode(
    extensions: Callable[[bool], Path],
    variables: dict[str, str],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., CodeServer]]:
    """``start_vscode(settings, trusting=…, jupyter=…)``: another VS Code, ended with the tests."""
    started: list[CodeServer] = []

    def start(settings: dict[str, object] | None = None, **options: Any) -> CodeServer:
        settings = {"jupyterTpu.python": sys.executable, **(settings or {})}
        folder = tmp_path_factory.mktemp("vscode")
        merged = {**variables, **options.pop("variables", {})}
        folders = folder, extensions(options.get("jupyter", False))
        server = CodeServer(*folders, settings=settings, variables=merged, **options)
        started.append(server)
        return server

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="session")
def vscode(start_vscode: Callable[..., CodeServer]) -> CodeServer:
    """VS Code that trusts its workspace, with Microsoft's Jupyter extension where that is had."""
    return start_vscode(jupyter=True)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if chromium() is None:
        pytest.skip("SKIPPED FOR WANT OF chromium: install it, or say where it is: CHROMIUM_PATH")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    context = browser.new_context(**WINDOW)
    context.set_default_timeout(120_000)  # ms
    yield context
    context.close()


@pytest.fixture
def open_window(
    context: BrowserContext, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Window]]:
    """``open_window(server, folder)``: a window, of which a picture is taken at the end."""
    windows: list[Window] = []

    def open(server: CodeServer, folder: Path | None = None) -> Window:
        window = Window(context.new_page(), server)
        windows.append(window)
        window.open(folder)
        return window

    yield open
    OUT.mkdir(exist_ok=True)
    name = re.sub(r"\W+", "-", request.node.name).strip("-")
    for number, window in enumerate(windows):
        if window.page.is_closed():
            continue
        window.page.screenshot(path=OUT / f"{name}-{number}.png")


@pytest.fixture
def window(vscode: CodeServer, open_window: Callable[..., Window]) -> Window:
    return open_window(vscode, vscode.workspace)


@pytest.fixture(scope="session")
def rest(variables: dict[str, str]) -> Callable[..., Any]:
    """``rest("GET", "tpus")``: a call of the server that VS Code uses, started if there is none."""

    def call(method: str, path: str, body: object = None) -> Any:
        url, token = server_of(variables)
        request = urllib.request.Request(
            f"{url}jupyter-tpu/v1/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"token {token}"},
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or "null")

    return call


@pytest.fixture(scope="session")
def tpu(rest: Callable[..., Any]) -> str:
    """The name of a connected TPU of 4 devices that tests share."""
    return connected(
        rest, "shared", "v5litepod-4", "us-central1-a", connect={"packages": ["anywidget"]}
    )


@pytest.fixture
def pod(rest: Callable[..., Any]) -> Iterator[str]:
    """The name of a connected TPU of two hosts."""
    name = connected(rest, "pair", "v4-16", "us-central2-b")
    yield name
    finish(rest, rest("DELETE", f"tpus/{name}?end_kernels=true"))


@pytest.fixture(autouse=True, scope="session")
def ended_servers(variables: dict[str, str]) -> Iterator[None]:
    yield
    end_servers(variables)


@pytest.fixture
def billed(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a user of Google Cloud, whose TPUs cost money, who has not logged in."""
    folder = tmp_path / "billed"
    folder.mkdir()
    variables = {**jupyter_variables(folder), "CLOUDSDK_CORE_PROJECT": "my-project"}
    yield {**variables, "JUPYTER_TPU_EMULATOR": ""}
    end_servers(variables)


@pytest.fixture
def priced(emulator: Any, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a user whose TPUs cost money: of a server that has them from the
    emulator, and takes it for Google.
    """
    folder = tmp_path / "priced"
    folder.mkdir()
    variables = jupyter_variables(folder)
    config = Path(variables["JUPYTER_CONFIG_DIR"]) / "jupyter_server_config.py"
    config.write_text(
        "from jupyter_tpu.cloud import CloudTPU\nCloudTPU.emulated = property(lambda _: False)\n"
    )
    yield {**variables, "JUPYTER_TPU_EMULATOR": str(emulator.state_file)}
    end_servers(variables)

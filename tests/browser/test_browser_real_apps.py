"""Well-known web applications on a host, in a browser through an app's own origin.

They are installed in an environment that the test makes, and listen on the host's own address:
emulated hosts share this machine's network.
"""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_server import FOREIGN, LabPage, LabServer
from playwright.sync_api import Browser, Page, expect
from ports import free_port
from waiting import until

pytestmark = pytest.mark.long

OUT = Path(__file__).parent / "out"
PACKAGES = ("gradio", "streamlit", "marimo", "jupyterlab", "ipykernel")

GRADIO = """
import sys
import gradio

with gradio.Blocks() as app:
    name, greeting = gradio.Textbox(label="Name"), gradio.Textbox(label="Greeting")
    gradio.Button("Greet").click(lambda name: f"Hello {name}", name, greeting)
app.launch(server_name=sys.argv[1], server_port=int(sys.argv[2]))
"""

STREAMLIT = """
import streamlit

streamlit.write("Hello " + streamlit.text_input("Name"))
"""

MARIMO = """
import marimo

app = marimo.App()

@app.cell
def _():
    import marimo as mo
    return (mo,)

@app.cell
def _(mo):
    name = mo.ui.text(label="Name")
    name
    return (name,)

@app.cell
def _(mo, name):
    mo.md("Hello " + name.value)
    return
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """That of an environment with the applications."""
    folder = tmp_path_factory.mktemp("applications") / "env"
    uv = Path(sys.executable).with_name("uv")
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, folder], check=True)
    python = folder / "bin" / "python"
    subprocess.run([uv, "pip", "install", "-q", "--python", python, *PACKAGES], check=True)
    return python


@pytest.fixture
def run(python: Path, tpu: dict[str, Any], tmp_path: Path) -> Iterator[Callable[..., int]]:
    """``run(script, *words)`` runs an application on the host and gives its port.

    In the words stand SCRIPT, ADDRESS and PORT.
    """
    address, port = tpu["hosts"][0]["internal_address"], free_port()
    started: list[subprocess.Popen[bytes]] = []
    log = tmp_path / "log"

    def run(script: str, *words: str) -> int:
        (tmp_path / "app.py").write_text(script)
        known = {"SCRIPT": str(tmp_path / "app.py"), "ADDRESS": address, "PORT": str(port)}
        own = {name: value for name, value in os.environ.items() if not name.startswith(FOREIGN)}
        own |= {"HOME": str(tmp_path), "GRADIO_ANALYTICS_ENABLED": "False"}
        with log.open("wb") as output:
            process = subprocess.Popen(
                [python, *(known.get(word, word) for word in words)],
                cwd=tmp_path,
                env=own,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        started.append(process)

        def listens() -> bool:
            assert process.poll() is None, log.read_text()
            with socket.socket() as caller:
                return caller.connect_ex((address, port)) == 0

        until(listens, 120, log.read_text)
        return port

    yield run
    for process in started:
        process.terminate()
        process.wait(60)


@pytest.fixture
def visit(
    plain_browser: Browser, lab_server: LabServer, tpu: dict[str, Any], request: Any
) -> Iterator[Callable[..., Page]]:
    """``visit(port)``: a window that shows the application there."""
    context = plain_browser.new_context(viewport={"width": 1000, "height": 600})

    def visit(port: int, path: str = "/") -> Page:
        body = {"port": port, "path": path}
        opened = lab_server.call("POST", f"tpus/{tpu['name']}/apps", body)
        visit = lab_server.call("POST", f"apps/{opened['id']}/visits", {})
        page = context.new_page()
        page.goto(visit["url"])
        return page

    yield visit
    OUT.mkdir(exist_ok=True)
    for page in context.pages:
        page.screenshot(path=OUT / f"{request.node.name}.png")
    context.close()


def test_gradio(run, visit):
    page = visit(run(GRADIO, "SCRIPT", "ADDRESS", "PORT"))
    page.get_by_label("Name").fill("Ann")
    page.get_by_role("button", name="Greet").click()
    expect(page.get_by_label("Greeting")).to_have_value("Hello Ann")


def test_streamlit(run, visit):
    words = ("-m", "streamlit", "run", "SCRIPT", "--server.headless", "true")
    words += ("--server.address", "ADDRESS", "--server.port", "PORT")
    page = visit(run(STREAMLIT, *words, "--browser.gatherUsageStats", "false"))
    page.get_by_label("Name").fill("Ann")
    page.get_by_label("Name").press("Enter")
    expect(page.get_by_text("Hello Ann")).to_be_visible()


def test_marimo(run, visit):
    words = ("-m", "marimo", "run", "SCRIPT", "--headless", "--host", "ADDRESS", "--port", "PORT")
    page = visit(run(MARIMO, *words))
    page.get_by_label("Name").fill("Ann")
    page.get_by_label("Name").press("Enter")
    expect(page.get_by_text("Hello Ann")).to_be_visible()


def test_a_jupyter_server(run, visit, lab_server):
    words = ("-m", "jupyterlab", "--no-browser", "--allow-root", "--LabApp.news_url=None")
    token = "one-of-the-host"
    words += (
        "--ServerApp.ip",
        "ADDRESS",
        "--ServerApp.port",
        "PORT",
        f"--IdentityProvider.token={token}",
    )
    page = visit(run("", *words), f"/lab?token={token}")
    card = page.locator(".jp-LauncherCard", has_text=re.compile("Python 3")).first
    card.click(timeout=60_000)
    output = LabPage(page, lab_server).run_cell("6 * 7")
    expect(output).to_have_text("42")

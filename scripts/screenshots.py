"""Takes the pictures in docs/images from the real thing, light and dark: a JupyterLab with the
extension and its emulator, a TPU that runs a notebook, one with four hosts, and a hunt.

They are stored with 256 colours: this halves them, and nobody sees it.
"""

from __future__ import annotations

import io
import json
import re
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, expect, sync_playwright

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "browser")]

from lab_server import CONNECT, SCRIPTABLE, LabPage, LabServer, chromium  # noqa: E402
from waiting import until  # noqa: E402

from jupyter_tpu.emulator import EmulatorState  # noqa: E402

IMAGES = ROOT / "docs" / "images"
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
OPTIONS = ["--JupyterTPU.emulator=True", *SCRIPTABLE]
ZONE = "us-central1-a"
CODE = """import platform
import jax

print("This cell runs on", platform.node())
jax.devices()"""


def fault(folder: Path, **fields: object) -> None:
    """Switches a fault of the server's emulator on; *folder* is the server's."""
    state = EmulatorState.read(folder / "tpu" / "emulator" / "emulator.json")
    token = Path(state.token_file).read_text()
    request = urllib.request.Request(
        f"{state.rest}/emulator/v1/faults",
        data=json.dumps(fields).encode(),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
    )
    urllib.request.urlopen(request, timeout=60).close()


def take(browser: Browser, server: LabServer, folder: Path) -> None:
    context = browser.new_context(viewport={"width": 1120, "height": 690})
    lab = LabPage(context.new_page(), server)
    lab.open()
    lab.state("my-tpu", "Connected")
    card = lab.page.locator('.jp-LauncherCard[data-category="Notebook"]', has_text=" · my-tpu")
    card.click()
    lab.run_cell(CODE, timeout=CONNECT)
    lab.resize(330)
    expect(lab.tpu("my-tpu")).to_contain_text(re.compile("1 kernel"), timeout=30_000)
    in_both_themes(lab, "panel")

    lab.open_form()
    lab.choose_type("v5litepod-16")
    in_both_themes(lab, "form")
    lab.page.keyboard.press("Escape")
    lab.page.reload()
    lab.open()

    lab.open_page("my-tpu")
    in_both_themes(lab, "page")

    fault(folder, kind="no-capacity", zone="us-west4-a")
    fault(folder, kind="no-capacity", zone="us-east5-b")
    tpu = {"name": "wanted", "type": "v5litepod-8", "zone": "us-west4-a"}
    zones = ["us-west4-a", "us-east5-b"]
    server.call("POST", "hunts", {"tpu": tpu, "zones": zones, "tiers": ["spot", "on-demand"]})
    until(lambda: server.call("GET", "hunts")[0]["attempted"] > 2, CONNECT)
    lab.panel.get_by_role("button", name="Show details").first.click()
    in_both_themes(lab, "hunt")
    context.close()


def in_both_themes(lab: LabPage, name: str) -> None:
    for suffix, theme in THEMES.items():
        lab.set_theme(theme)
        expect(lab.page.locator(".jp-MainAreaWidget .jp-spinner")).to_have_count(0)
        lab.page.mouse.move(700, 640)
        picture = Image.open(io.BytesIO(lab.page.screenshot(animations="disabled")))
        file = IMAGES / f"{name}-{suffix}.png"
        picture.convert("RGB").quantize(256).save(file, optimize=True)
        print(f"{file.relative_to(ROOT)}: {file.stat().st_size / 1000:.0f} kB", flush=True)
    lab.set_theme(THEMES["light"])


def with_lab(work: Callable[[Browser, LabServer, Path], None]) -> None:
    """Does *work* with a browser, and a server in a folder of its own."""
    browser_path = chromium()
    if browser_path is None:
        sys.exit("The pictures need Chromium: install it, or set CHROMIUM_PATH.")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        server = LabServer(folder, options=OPTIONS)
        try:
            browser = playwright.chromium.launch(
                executable_path=browser_path, args=["--no-sandbox"]
            )
            work(browser, server, folder)
            server.end_kernels()
        finally:
            server.stop()


def prepare_and_take(browser: Browser, server: LabServer, folder: Path) -> None:
    kinds = {"my-tpu": "v5litepod-8", "my-pod": "v5litepod-16", "spare": "v5litepod-4"}
    for name, kind in kinds.items():
        body = {"name": name, "type": kind, "zone": ZONE}
        server.finish(server.call("POST", "tpus", body))
    server.finish(server.call("POST", "tpus/my-tpu/connect", {}))
    server.finish(server.call("POST", "tpus/spare/stop", {}))
    take(browser, server, folder)


if __name__ == "__main__":
    with_lab(prepare_and_take)

"""Takes docs/images/panel-light.png and panel-dark.png from the real thing: a JupyterLab with the
extension and its emulator, two TPUs, one of them connected, and a notebook that runs on it.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "browser")]

from lab_server import CONNECT, SCRIPTABLE, LabPage, LabServer, chromium  # noqa: E402

IMAGES = ROOT / "docs" / "images"
THEMES = {"panel-light": "JupyterLab Light", "panel-dark": "JupyterLab Dark"}
OPTIONS = ["--JupyterTPU.emulator=True", *SCRIPTABLE]
ZONE = "us-central1-a"
CODE = """import platform
import jax

print("This cell runs on", platform.node())
jax.devices()"""


def take(browser: Browser, server: LabServer) -> None:
    context = browser.new_context(viewport={"width": 1120, "height": 690})
    lab = LabPage(context.new_page(), server)
    page = lab.page
    lab.open()
    lab.state("my-tpu", "Connected")
    card = page.locator('.jp-LauncherCard[data-category="Notebook"]', has_text=" · my-tpu")
    card.click()
    lab.run_cell(CODE, timeout=CONNECT)
    for name, theme in THEMES.items():
        lab.set_theme(theme)
        if name == "panel-light":
            details(lab)
        expect(page.locator(".jp-MainAreaWidget .jp-spinner")).to_have_count(0)
        page.mouse.move(700, 640)
        page.screenshot(path=IMAGES / f"{name}.png", animations="disabled")
    context.close()


def details(lab: LabPage) -> None:
    """Opens what there is to know about the connected TPU, in a sidebar that has room for it."""
    lab.resize(330)
    expect(lab.tpu("my-tpu")).to_contain_text(re.compile("1 kernel"), timeout=30_000)


def main() -> None:
    browser_path = chromium()
    if browser_path is None:
        sys.exit("The pictures need Chromium: install it, or set CHROMIUM_PATH.")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = LabServer(Path(folder), options=OPTIONS)
        try:
            for name, kind in (("my-tpu", "v5litepod-8"), ("spare", "v5litepod-4")):
                body = {"name": name, "type": kind, "zone": ZONE}
                server.finish(server.call("POST", "tpus", body))
            server.finish(server.call("POST", "tpus/my-tpu/connect", {}))
            server.finish(server.call("POST", "tpus/spare/stop", {}))
            browser = playwright.chromium.launch(
                executable_path=browser_path, args=["--no-sandbox"]
            )
            take(browser, server)
            server.end_kernels()
        finally:
            server.stop()
    for name in THEMES:
        file = IMAGES / f"{name}.png"
        print(f"{file.relative_to(ROOT)}: {file.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()

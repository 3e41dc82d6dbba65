"""Records docs/images/tour.webp from the real thing: a TPU is created in JupyterLab, a notebook
runs on it, the connection is cut while a cell prints, and no line is lost.

Every frame is a picture of the page at its own time. Only waiting is shortened: a picture that
stays is shown for at most a second and a half. The mouse pointer is drawn into the page, because a
browser without a screen has none.
"""

from __future__ import annotations

import base64
import io
import itertools
import re
import sys
from pathlib import Path
from typing import Any

from PIL import Image, ImageChops
from playwright.sync_api import Browser, Page, expect
from screenshots import CONNECT, IMAGES, ROOT, LabPage, LabServer, fault, with_lab

SIZE: Any = {"width": 1000, "height": 600}
TARGET = IMAGES / "tour.webp"
#: Milliseconds that a picture is shown, at least and at most; of the whole, and its size in bytes.
SHORTEST, LONGEST = 120, 1500
WHOLE, BYTES = 60_000, 2_000_000
POINTER = """
addEventListener('DOMContentLoaded', () => {
  const pointer = document.createElement('div');
  pointer.style.cssText = 'position:fixed;z-index:99999;width:14px;height:14px;border-radius:7px;' +
    'background:#e8710a99;border:2px solid #fff;pointer-events:none;transform:translate(-9px,-9px)';
  document.body.append(pointer);
  addEventListener('mousemove', event => {
    pointer.style.left = event.clientX + 'px';
    pointer.style.top = event.clientY + 'px';
  }, true);
});
"""
STEPS = """import time
for step in range(20):
    print("step", step)
    time.sleep(0.5)"""


class Recorder:
    """The pictures of a page, each with the time at which it came, in seconds."""

    def __init__(self, page: Page) -> None:
        self.frames: list[tuple[float, bytes]] = []
        self._session = page.context.new_cdp_session(page)
        self._session.on("Page.screencastFrame", self._keep)
        self._session.send("Page.startScreencast", {"format": "png", "everyNthFrame": 1})

    def _keep(self, frame: dict[str, Any]) -> None:
        self.frames.append((frame["metadata"]["timestamp"], base64.b64decode(frame["data"])))
        self._session.send("Page.screencastFrameAck", {"sessionId": frame["sessionId"]})

    def stop(self) -> None:
        self._session.send("Page.stopScreencast")


def play(page: Page, lab: LabPage, folder: Path) -> None:
    """What is seen."""
    page.wait_for_timeout(1200)
    lab.open_form()
    page.wait_for_timeout(600)
    lab.form.get_by_label("Name").fill("")
    lab.form.get_by_label("Name").press_sequentially("my-tpu", delay=70)
    lab.choose_type("v5litepod-8")
    page.wait_for_timeout(1200)
    lab.form.get_by_role("button", name="Create", exact=True).click()
    lab.state("my-tpu", "Connected", timeout=CONNECT)
    page.wait_for_timeout(1000)
    card = page.locator('.jp-LauncherCard[data-category="Notebook"]', has_text=" · my-tpu")
    card.click()
    expect(page.locator("#jp-main-statusbar")).to_contain_text("| Idle", timeout=CONNECT * 1000)
    type_cell(page, "import jax\njax.devices()")
    expect(page.locator(".jp-OutputArea-output").first).to_contain_text("CpuDevice", timeout=60_000)
    page.wait_for_timeout(1500)
    type_cell(page, STEPS)
    output = page.locator(".jp-OutputArea-output").last
    expect(output).to_contain_text("step 4", timeout=60_000)
    fault(folder, kind="cut-links", node="my-tpu")
    expect(output).to_contain_text("step 19", timeout=120_000)
    lines = re.findall(r"step (\d+)", output.inner_text())
    assert lines == [str(step) for step in range(20)], lines
    page.wait_for_timeout(1500)
    lab.open_page("my-tpu")
    page.wait_for_timeout(2500)


def type_cell(page: Page, code: str) -> None:
    """Types code into the last cell, and runs it."""
    cell = page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell").last
    cell.locator(".cm-content").click()
    first, *lines = code.splitlines()
    page.keyboard.type(first, delay=40)
    for line in lines:
        page.keyboard.insert_text(f"\n{line}")  # as it is: typed, the editor would indent it
        page.wait_for_timeout(500)
    page.keyboard.press("Shift+Enter")


def assemble(frames: list[tuple[float, bytes]]) -> tuple[list[Image.Image], list[int]]:
    """Pictures that differ, and how long each is shown, in milliseconds."""
    pictures: list[Image.Image] = []
    times: list[float] = []
    for time, data in frames:
        picture = Image.open(io.BytesIO(data)).convert("RGB")
        if pictures and ImageChops.difference(pictures[-1], picture).getbbox() is None:
            continue
        if times and (time - times[-1]) * 1000 < SHORTEST:
            pictures[-1] = picture
        else:
            pictures.append(picture)
            times.append(time)
    times.append(frames[-1][0])
    shown = [int((after - before) * 1000) for before, after in itertools.pairwise(times)]
    return pictures, [min(max(duration, SHORTEST), LONGEST) for duration in shown]


def record(browser: Browser, server: LabServer, folder: Path) -> None:
    # Without animations: a spinner makes each moment of waiting another picture.
    context = browser.new_context(viewport=SIZE, reduced_motion="reduce")
    context.add_init_script(POINTER)
    lab = LabPage(context.new_page(), server)
    lab.open()
    lab.resize(300)
    recorder = Recorder(lab.page)
    play(lab.page, lab, folder)
    recorder.stop()
    pictures, durations = assemble(recorder.frames)
    real = recorder.frames[-1][0] - recorder.frames[0][0]
    context.close()
    whole = sum(durations)
    if whole > WHOLE:  # the long ones first
        scale = WHOLE / whole
        durations = [max(60, int(duration * scale)) for duration in durations]
    for quality in (60, 45, 30, 15):
        pictures[0].save(
            TARGET,
            save_all=True,
            append_images=pictures[1:],
            duration=durations,
            loop=0,
            quality=quality,
            method=4,
            minimize_size=True,
        )
        if TARGET.stat().st_size <= BYTES:
            break
    else:
        sys.exit(f"{TARGET.relative_to(ROOT)} is larger than {BYTES} bytes.")
    size = TARGET.stat().st_size / 1000
    print(
        f"{TARGET.relative_to(ROOT)}: {size:.0f} kB, {len(pictures)} pictures, "
        f"{sum(durations) / 1000:.0f} s shown of {real:.0f} s"
    )


if __name__ == "__main__":
    with_lab(record)

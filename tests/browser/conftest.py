"""JupyterLab with the extension and the emulator, and Debian's Chromium that looks at it."""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from adoption_server import Server
from lab_server import LAB_PYTHON, SCRIPTABLE, WINDOW, LabPage, LabServer, chromium
from notebook_tabs import lab_beside
from playwright.sync_api import (
    Browser,
    BrowserContext,
    Error,
    Page,
    Playwright,
    expect,
    sync_playwright,
)
from shared_packages import share_packages

# A limit is only there for what never comes: a page on a busy machine takes its time.
expect.set_options(timeout=60_000)
#: Pictures of what the tests saw.
OUT = Path(__file__).parent / "out"


@pytest.fixture(scope="session")
def lab_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LabServer]:
    """A JupyterLab whose configuration is one line: `c.JupyterTPU.emulator = True`."""
    if shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin") is None:
        pytest.skip("SKIPPED FOR WANT OF sshd: install openssh-server to run these tests")
    folder = tmp_path_factory.mktemp("lab")
    share_packages(folder / "tpu" / "emulator", tmp_path_factory)
    server = LabServer(folder, options=["--JupyterTPU.emulator=True", *SCRIPTABLE])
    yield server
    server.stop()


@pytest.fixture(scope="session")
def connected_tpu(lab_server: LabServer) -> Iterator[dict[str, Any]]:
    """A connected TPU of 8 devices that tests share, with ipywidgets and matplotlib, as JSON."""
    name = "shared"
    body = {"name": name, "type": "v5litepod-8", "zone": "us-central1-a"}
    assert lab_server.finish(lab_server.call("POST", "tpus", body))["state"] == "done"
    packages = {"packages": ["ipywidgets", "matplotlib"]}
    done = lab_server.finish(lab_server.call("POST", f"tpus/{name}/connect", packages))
    assert done["state"] == "done", done
    tpu = lab_server.call("GET", f"tpus/{name}")
    yield tpu
    ends = {"end_kernels": True, "end_jobs": True}
    lab_server.finish(lab_server.call("DELETE", f"tpus/{name}", ends))


@pytest.fixture
def tpu(connected_tpu: dict[str, Any], lab_server: LabServer) -> Iterator[dict[str, Any]]:
    """The shared TPU; what a test leaves there is removed after it."""
    yield connected_tpu
    lab_server.end_kernels()
    for app in lab_server.call("GET", "apps"):
        lab_server.call("DELETE", f"apps/{app['id']}")


@pytest.fixture(scope="session")
def kept_lab(
    emulator: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, str]]:
    """A JupyterLab that may be killed, since the emulator is not in it, and a TPU's kernelspec."""
    folder = tmp_path_factory.mktemp("kept-lab")
    with lab_beside(emulator, folder, LAB_PYTHON, tpu="kept-lab") as lab:
        yield lab


#: Closes what the tests of this folder share.
SHARED = contextlib.ExitStack()


@functools.cache
def shared_page() -> tuple[Playwright, Page]:
    """One page for all tests here: what it opens next loads in half the time."""
    playwright = SHARED.enter_context(sync_playwright())
    browser = SHARED.enter_context(
        playwright.chromium.launch(
            executable_path=chromium(),
            # Chromium's sandbox does not work for root, as whom containers run. A second tab finds
            # in its process what the first one has compiled.
            args=["--no-sandbox", "--process-per-site"],
        )
    )
    context = browser.new_context(**WINDOW)
    context.set_default_timeout(120_000)  # ms, for clicks and pictures; see expect
    return playwright, context.new_page()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """Playwright keeps an event loop running in this thread, which others' tests must not see."""
    if nextitem is None or Path(__file__).parent not in nextitem.path.parents:
        shared_page.cache_clear()
        SHARED.close()


@pytest.fixture(scope="module")
def playwright() -> Playwright:
    if chromium() is None:
        pytest.skip("SKIPPED FOR WANT OF chromium: install it, or say where it is: CHROMIUM_PATH")
    return shared_page()[0]


@pytest.fixture(scope="module")
def page(playwright: Playwright) -> Iterator[Page]:
    """The page of all tests. What one file's have chosen is not remembered in the next one."""
    page = shared_page()[1]
    yield page
    if page.url.startswith("http"):
        page.evaluate("() => [localStorage, sessionStorage].forEach(storage => storage.clear())")


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Browser:
    browser = shared_page()[1].context.browser
    assert browser is not None
    return browser


@pytest.fixture(scope="module")
def context(page: Page) -> BrowserContext:
    return page.context


@contextlib.contextmanager
def users_chromium(playwright: Playwright, profile: Path, *options: str) -> Iterator[Browser]:
    """Chromium as a user starts it, driven from outside, with nothing switched off but its sandbox.

    Playwright's own way of starting it switches off the partitions of cookies, on which apps rest.
    """
    command = [chromium() or "", "--headless=new", "--no-sandbox", "--remote-debugging-port=0"]
    # Playwright may wait for ever for the page of new tabs, which is the first one otherwise.
    command += ["--no-first-run", f"--user-data-dir={profile}", *options, "about:blank"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        for line in process.stderr:
            match = re.search(r"DevTools listening on (ws://\S+)", line)
            if match:
                break
        else:
            raise AssertionError("Chromium did not start")
        threading.Thread(target=process.stderr.read, daemon=True).start()
        browser = playwright.chromium.connect_over_cdp(match[1], timeout=120_000)  # ms
        yield browser
        browser.close()
    finally:
        process.terminate()
        process.wait(60)


@pytest.fixture(scope="module")
def plain_browser(
    playwright: Playwright, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    with users_chromium(playwright, tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture(scope="module")
def strict_browser(
    playwright: Playwright, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Browser]:
    """As `plain_browser`, but pages in frames of other sites may not store data."""
    profile = tmp_path_factory.mktemp("chromium")
    option = "--disable-features=ThirdPartyStoragePartitioning"
    with users_chromium(playwright, profile, option) as browser:
        yield browser


@pytest.fixture
def unopened_lab(
    page: Page, lab_server: LabServer, request: pytest.FixtureRequest
) -> Iterator[LabPage]:
    """Where a test opens JupyterLab itself. A picture is taken at the end of one that failed."""
    errors: list[str] = []
    failed = request.session.testsfailed

    def note(error: Error) -> None:
        errors.append(error.stack or str(error))

    page.on("pageerror", note)
    yield LabPage(page, lab_server)
    if request.session.testsfailed > failed:
        OUT.mkdir(exist_ok=True)
        name = re.sub(r"\W+", "-", request.node.name).strip("-")
        page.screenshot(path=OUT / f"{name}.png")
    page.remove_listener("pageerror", note)
    page.unroute_all()
    # JupyterLab's own are not ours to judge.
    assert [error for error in errors if "extensions/jupyter-tpu" in error] == []


@pytest.fixture(scope="module")
def opened(page: Page, lab_server: LabServer) -> None:
    """JupyterLab and the panel, opened once in the page of all tests of a file."""
    LabPage(page, lab_server).open()


@pytest.fixture
def lab(unopened_lab: LabPage, request: pytest.FixtureRequest) -> Iterator[LabPage]:
    """JupyterLab, the panel open; opened once in a file that says ``OPENED_ONCE = True``."""
    if getattr(request.module, "OPENED_ONCE", False):
        request.getfixturevalue("opened")
    else:
        unopened_lab.open()
    yield unopened_lab
    unopened_lab.page.keyboard.press("Escape")

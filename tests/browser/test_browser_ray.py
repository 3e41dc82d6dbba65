"""Ray on a pod of two emulated hosts, as a person starts and sees it in JupyterLab: the real one,
from the package index, and its own dashboard in a tab.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from lab_server import CONNECT, LabPage, LabServer
from playwright.sync_api import Browser, expect
from waiting import until

OUT = Path(__file__).parent / "out"
NAME = "rays"
#: Seconds: Ray's first start compiles a lot of Python.
LIMIT = 600.0
pytestmark = [pytest.mark.long, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def pod(lab_server: LabServer) -> Iterator[str]:
    """Without Ray."""
    with lab_server.pod(NAME) as name:
        yield name


@pytest.fixture
def own_lab(plain_browser: Browser, lab_server: LabServer) -> Iterator[LabPage]:
    """JupyterLab in a browser with the cookies of apps as users have them."""
    OUT.mkdir(exist_ok=True)
    context = plain_browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(120_000)  # ms
    lab = LabPage(context.new_page(), lab_server)
    lab.page.on("console", lambda message: message.type == "error" and print(message.text))
    lab.open()
    yield lab
    lab.page.screenshot(path=OUT / "ray-end.png")
    context.close()


def test_ray_is_started_its_dashboard_opens_in_a_tab_and_it_is_stopped(own_lab, pod):
    lab, page = own_lab, own_lab.page
    lab.act(pod, "Web Apps and Ports", "Ray…")
    start = page.locator(".jp-Dialog", has_text=f"Start Ray on {pod}")
    expect(start).to_contain_text("Ray runs on all 2 hosts until you stop it.")
    page.screenshot(path=OUT / "ray-start.png")
    start.get_by_role("button", name="Start").click()

    # The tab opens by itself, and the page in it is Ray's own, on an origin of its own.
    frame = page.locator(".jp-tpu-App:not(.lm-mod-hidden) iframe")
    expect(frame).to_be_visible(timeout=LIMIT * 1000)
    dashboard = frame.content_frame
    expect(dashboard.get_by_text("Cluster", exact=True).first).to_be_visible(timeout=LIMIT * 1000)
    address = frame.get_attribute("src") or ""
    assert re.match(r"http://[^/]+\.localhost:\d+/", address), address
    page.screenshot(path=OUT / "ray-dashboard.png")
    # Its own calls are answered there: it lists both hosts.
    dashboard.get_by_text("Cluster", exact=True).first.click()
    expect(dashboard.get_by_role("row").filter(has_text="ALIVE")).to_have_count(2)
    page.screenshot(path=OUT / "ray-dashboard-cluster.png")

    lab.act(pod, "Web Apps and Ports", "Ray…")
    running = page.locator(".jp-Dialog", has_text=f"Ray on {pod}")
    expect(running).to_contain_text(re.compile(r"Ray 2\.\S+ is running at [\d.]+:\d+"))
    expect(running.get_by_role("listitem")).to_contain_text(
        [re.compile(r"Host 0: 4 chips, \d+ processors"), re.compile(r"Host 1: 4 chips")]
    )
    page.screenshot(path=OUT / "ray-running.png")
    running.get_by_role("button", name="Stop Ray").click()
    expect(page.get_by_text(f"Ray on {pod} is stopping.")).to_be_visible(timeout=CONNECT * 1000)
    path = f"tpus/{pod}/ray"
    until(lambda: lab.server.call("GET", path)["state"] == "stopped", LIMIT)
    assert lab.server.call("GET", "apps") == []

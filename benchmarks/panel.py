"""How long the browser's main thread works for one event, with 30 TPUs of 64 hosts in the panel.

A real JupyterLab in Chromium, with the list in its sidebar and the page of one TPU open. There is
no room here for 1,920 hosts: the answer of the server's list is one real TPU's, many times over,
and the events are sent to the page in its place. The time is Chromium's own (TaskDuration: script,
style, layout; of the processor), less what an idle page takes in the same while.

    python benchmarks/panel.py [--events 30]
"""

from __future__ import annotations

import argparse
import copy
import json
import re
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Route, WebSocketRoute, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "tests"), str(ROOT / "tests" / "browser")]
from _results import spread, write  # noqa: E402
from lab_server import WINDOW, LabPage, LabServer, chromium  # noqa: E402

TPUS, HOSTS = 30, 64
TYPE = "v5litepod-256"
#: Milliseconds: what an event may take (DESIGN.md, section 7), and how long it is observed.
GOAL, OBSERVED = 16.0, 400
SCHEMA = "https://events.jupyter-tpu.org/change/v1"


def many(tpu: dict[str, Any]) -> list[dict[str, Any]]:
    """As many as in the goal, of one with a host."""
    host = tpu["hosts"][0]
    tpus = []
    for number in range(TPUS):
        hosts = [{**copy.deepcopy(host), "index": index} for index in range(HOSTS)]
        new = {"name": f"tpu-{number:02}", "id": f"id-{number}", "type": TYPE}
        tpus.append({**copy.deepcopy(tpu), **new, "chips": 4 * HOSTS, "hosts": hosts})
    return tpus


def measure(browser: Browser, server: LabServer, events: int) -> dict[str, list[float]]:
    context = browser.new_context(**WINDOW)
    context.set_default_timeout(120_000)
    page = context.new_page()
    body = {"name": "one", "type": "v5litepod-1", "zone": "us-central1-a"}
    server.finish(server.call("POST", "tpus", body))
    answer: Any = server.call("GET", "tpus")
    tpus = many(answer["tpus"][0])
    sockets: list[WebSocketRoute] = []

    def listed(route: Route) -> None:
        route.fulfill(json={**answer, "tpus": tpus, "operations": []})

    page.route(re.compile(r"/jupyter-tpu/v1/tpus(\?|$)"), listed)
    page.route_web_socket(
        re.compile("/api/events/subscribe"), lambda socket: sockets.append(socket)
    )
    lab = LabPage(page, server)
    lab.open()
    lab.open_page("tpu-00")
    metrics = context.new_cdp_session(page)
    # Processor time of the main thread: other programs do not count.
    metrics.send("Performance.enable", {"timeDomain": "threadTicks"})

    def busy() -> float:
        matches = metrics.send("Performance.getMetrics")["metrics"]
        return next(one["value"] for one in matches if one["name"] == "TaskDuration") * 1000

    def during(act: Any) -> float:
        before = busy()
        act()
        page.wait_for_timeout(OBSERVED)
        return busy() - before

    def change(number: int) -> None:
        tpu = tpus[number]
        tpu["kernels"] = 1 - tpu["kernels"] if tpu["kernels"] in (0, 1) else 0
        key = f"{tpu['zone']}/{tpu['name']}"
        event = {"what": "tpu", "id": key, "gone": False, "tpu": tpu}
        for socket in sockets:
            socket.send(json.dumps({"schema_id": SCHEMA, "version": "1", **event}))

    page.wait_for_timeout(3000)
    change(7)
    row = lab.tpu("tpu-07")
    row.get_by_text("1 kernel").wait_for()  # events arrive
    idle = statistics.median(during(lambda: None) for _ in range(10))
    return {
        "another TPU": [during(lambda: change(7)) - idle for _ in range(events)],
        "the one whose page is open": [during(lambda: change(0)) - idle for _ in range(events)],
        "idle": [idle],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=30)
    events = parser.parse_args().events
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        server = LabServer(Path(name), options=["--JupyterTPU.emulator=True"])
        try:
            browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
            figures = measure(browser, server, events)
            browser.close()
        finally:
            server.stop()
    print(f"{TPUS} TPUs of {HOSTS} hosts, one page open, {events} events; ms; goal {GOAL:.0f}")
    for what, values in figures.items():
        tenth = statistics.quantiles(values, n=10)[-1] if len(values) > 1 else values[0]
        print(f"{what}: median {statistics.median(values):.1f}, p90 {tenth:.1f}")
    results = {
        what: {"median": statistics.median(values), "spread": spread(values)}
        for what, values in figures.items()
    }
    write("panel", n=events, figures=results)


if __name__ == "__main__":
    main()

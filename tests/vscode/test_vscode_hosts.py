"""What the extension does on hosts, in a real VS Code."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from code_server import CodeServer, Window, finish
from playwright.sync_api import BrowserContext, expect
from waiting import until


def test_a_terminal_and_the_open_file_run_on_a_host(window: Window, tpu: str) -> None:
    (window.server.workspace / "where.py").write_text(
        "import platform; print('file on', platform.node())"
    )
    window.expand(tpu)
    window.act("Host 0", "Open Terminal on Host")
    expect(window.page.locator(".terminal-wrapper.active")).to_be_visible()
    until(lambda: "@t1v-n-" in window.terminal_text(), 120, window.terminal_text)
    window.open_file("where.py")
    window.command("TPU: Run File on All Hosts")
    window.pick("Run File", tpu)
    until(lambda: "file on t1v-n-" in window.terminal_text(), 120, window.terminal_text)


def test_a_forwarded_port_and_a_job_are_in_the_tree(
    window: Window, rest: Callable[..., Any], tpu: str
) -> None:
    job = rest(
        "POST",
        f"tpus/{tpu}/jobs",
        {"command": ["sh", "-c", "echo from-the-job; sleep 600"], "name": "long"},
    )
    window.expand(tpu)
    expect(window.row("long")).to_contain_text("running")
    window.act("long", "Follow Job")
    until(lambda: "from-the-job" in window.terminal_text(), 120, window.terminal_text)
    # A reload of the window keeps what is open, and what the job has printed.
    window.reload()
    expect(window.row(tpu).first).to_have_attribute("aria-expanded", "true")
    expect(window.row(tpu).first).to_contain_text("emulated")
    until(lambda: "from-the-job" in window.terminal_text(), 120, window.terminal_text)
    window.act("long", "Stop Job")
    window.dialog.get_by_role("button", name="Stop").click()
    expect(window.row("long")).to_contain_text("stopped")
    window.act(tpu, "Forward Port")
    window.enter("Forward a Port", "8080")
    expect(window.row("127.0.0.1:").filter(has_text="host 0:8080")).to_contain_text("open")
    window.act("127.0.0.1:", "Close")
    expect(window.row("127.0.0.1:")).to_have_count(0)
    rest("DELETE", f"tpus/{tpu}/jobs/{job['id']}")


def test_the_open_file_and_the_workspace_go_to_all_hosts_of_a_pod(
    window: Window, rest: Callable[..., Any]
) -> None:
    """Without an environment: a file runs with the Python of the host then."""
    body = {"name": "pod", "type": "v4-16", "zone": "us-central2-b"}
    finish(rest, rest("POST", "tpus", body))
    workspace = window.server.workspace
    (workspace / "all.py").write_text("import platform; print('all on', platform.node())")
    window.open_file("all.py")
    window.command("TPU: Run File on All Hosts")
    window.pick("Run File", "pod")
    said = re.compile(r"all on t1v-n-\w+-w-(\d)")
    both = {"0", "1"}
    until(lambda: set(said.findall(window.terminal_text())) == both, 120, window.terminal_text)

    def copied(name: str) -> bool:
        command = ["test", "-f", f"{workspace.name}/{name}"]
        run = rest("POST", "tpus/pod/runs", {"command": command})
        while run["state"] == "running":
            run = rest("GET", f"tpus/pod/runs/{run['id']}")
        return bool(run["code"] == 0)  # the highest of both hosts

    window.act("pod", "Copy Workspace to Hosts")
    until(lambda: copied("all.py"), 120, window.terminal_text)
    (workspace / "later.txt").write_text("a change")
    until(lambda: copied("later.txt"), 120, window.terminal_text)
    window.act("pod", "Delete")
    window.dialog.get_by_role("button", name="Delete").click()
    expect(window.row("pod")).to_have_count(0)


def test_a_window_without_a_workspace_follows_a_job_and_says_what_it_can_not_copy(
    vscode: CodeServer, open_window: Callable[..., Window], rest: Callable[..., Any], tpu: str
) -> None:
    body = {"command": ["sh", "-c", "echo without-workspace; sleep 600"], "name": "alone"}
    job = rest("POST", f"tpus/{tpu}/jobs", body)
    window = open_window(vscode)
    window.expand(tpu)
    window.act("alone", "Follow Job")
    until(lambda: "without-workspace" in window.terminal_text(), 120, window.terminal_text)
    window.command("TPU: Copy Workspace to Hosts")
    expect(window.toasts.first).to_contain_text("Open the folder that is to be copied.")
    window.command("TPU: Stop Job")
    window.pick("Stop Job", "alone")
    window.dialog.get_by_role("button", name="Stop").click()
    expect(window.row("alone")).to_contain_text("stopped")
    rest("DELETE", f"tpus/{tpu}/jobs/{job['id']}")


def test_tensorboard_of_a_host_opens_in_the_browser(
    window: Window, context: BrowserContext, tpu: str
) -> None:
    window.command("TPU: Open TensorBoard")
    window.pick("Open TensorBoard", tpu)
    # The first time it is installed on the host.
    with context.expect_page(timeout=400_000) as opened:
        window.enter("TensorBoard on", "~/runs")
    expect(opened.value).to_have_title("TensorBoard")
    expect(opened.value.locator("body")).to_contain_text("No dashboards are active")
    window.expand(tpu)
    expect(window.row("TensorBoard")).to_contain_text("open")
    window.act("TensorBoard", "Close")
    expect(window.dialog).to_contain_text("TensorBoard stops on the host.")
    window.dialog.get_by_role("button", name="Close", exact=True).click()
    expect(window.row("TensorBoard")).to_have_count(0)


def test_a_browsers_window_says_that_it_opens_none_on_a_host(window: Window, tpu: str) -> None:
    """Remote - SSH is for VS Code on the desktop."""
    window.expand(tpu)
    window.act("Host 0", "Open Window on Host (Remote - SSH)")
    toast = window.toasts.first
    expect(toast).to_contain_text("VS Code in a browser can’t open a window on a host.")
    expect(toast).to_contain_text("Open Terminal on Host")

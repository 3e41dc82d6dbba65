"""A kernel that can't be reached although the server answers: the user is told why, and can act."""

import socket
import socketserver
import threading
from pathlib import Path

import pytest
from lab_server import WINDOW, LabPage, LabServer
from playwright.sync_api import Browser, expect

OUT = Path(__file__).parent / "out"


class ProxyWithoutWebSockets(socketserver.ThreadingTCPServer):
    """A proxy in front of a server that answers each WebSocket's handshake with 400, as many do."""

    daemon_threads = True
    #: Set it to let WebSockets through.
    passes = False

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.target = ("127.0.0.1", port)
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Connection(socketserver.BaseRequestHandler):
    server: ProxyWithoutWebSockets

    def handle(self) -> None:
        head = b""
        # A browser opens a new connection for each WebSocket: the first request tells.
        while b"\r\n\r\n" not in head:
            data = self.request.recv(65536)
            if not data:
                return
            head += data
        if not self.server.passes and b"upgrade: websocket" in head.lower():
            self.request.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
            return
        with socket.create_connection(self.server.target) as far:
            far.sendall(head)
            back = threading.Thread(target=_copy, args=(far, self.request), daemon=True)
            back.start()
            _copy(self.request, far)
            back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        pass  # the other side has closed it


def open_at(browser: Browser, server: LabServer, port: int) -> LabPage:
    """JupyterLab through a proxy."""
    context = browser.new_context(**WINDOW)
    lab = LabPage(context.new_page(), server)
    lab.page.goto(f"http://127.0.0.1:{port}/lab?reset&token={server.token}")
    return lab


def start_notebook(lab: LabPage, tpu: str) -> None:
    card = lab.page.locator('.jp-LauncherCard[data-category="Notebook"]', has_text=f"· {tpu}")
    card.click(timeout=60_000)
    expect(lab.page.locator(".jp-NotebookPanel")).to_be_visible()


@pytest.mark.long
def test_where_websockets_are_blocked_the_user_is_notified_and_can_reconnect(
    tpu, browser, lab_server
):
    proxy = ProxyWithoutWebSockets(lab_server.port)
    lab = open_at(browser, lab_server, proxy.port)
    start_notebook(lab, tpu["name"])
    alert = lab.page.get_by_role("alert").filter(has_text="WebSocket connections fail")
    expect(alert).to_be_visible()
    expect(lab.page.locator("#jp-main-statusbar")).to_contain_text("Disconnected")
    OUT.mkdir(exist_ok=True)
    lab.page.screenshot(path=OUT / "websockets-blocked.png", animations="disabled")
    proxy.passes = True
    alert.get_by_role("button", name="Reconnect").click()
    expect(alert).to_have_count(0)
    expect(lab.run_cell("print(6 * 7)")).to_have_text("42")
    lab.page.context.close()
    proxy.shutdown()
    proxy.server_close()

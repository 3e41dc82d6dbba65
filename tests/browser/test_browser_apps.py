"""Pages of a host in JupyterLab: in a tab, and without any way to Jupyter, whatever they try."""

import http.server
import json
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from lab_server import LAB_PYTHON, WINDOW, LabPage, LabServer
from playwright.sync_api import Browser, Locator, Page, expect
from waiting import until

OUT = Path(__file__).parent / "out"
#: Another environment's packages are tested: older ones (`make test-oldest`).
IS_OLD = sys.executable != LAB_PYTHON

#: What a page of a host tries against the Jupyter server that shows it, and what became of it.
HOSTILE = (Path(__file__).parent / "hostile.html").read_text()


class HostServer:
    """A web server of a host, run by somebody hostile. It notes all that it is told."""

    def __init__(self, address: str, jupyter: str) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.headers: dict[str, str] = {}  # of its answers
        self.reports: list[dict[str, str]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                outer.requests.append((self.path, dict(self.headers.items())))
                page = HOSTILE.replace("= JUPYTER", "= " + json.dumps(jupyter), 1)
                address = "://".join(
                    self.headers.get(f"X-Forwarded-{name}", "") for name in ("Proto", "Host")
                )
                pages = {
                    "/hostile": page,
                    "/absolute": ABSOLUTE.replace("ADDRESS", address),
                    "/worker.js": "",
                    "/answer": "A friendly page",
                    "/storage": STORAGE,
                }
                self.answer(pages.get(self.path, "<h1>A friendly page</h1>").encode())

            def do_POST(self) -> None:
                outer.requests.append((self.path, dict(self.headers.items())))
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.reports.append(json.loads(body))
                self.answer(b"")

            def answer(self, body: bytes) -> None:
                self.send_response(200)
                script = self.path.endswith(".js")
                self.send_header("Content-Type", "text/javascript" if script else "text/html")
                self.send_header("Content-Length", str(len(body)))
                for name, value in outer.headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer((address, 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def cookies(self) -> str:
        """All cookies that it was ever sent."""
        return "; ".join(headers.get("Cookie", "") for _, headers in self.requests)


@pytest.fixture
def lab(plain_browser: Browser, lab_server: LabServer) -> Iterator[LabPage]:
    yield from opened_in(plain_browser, lab_server)


@pytest.fixture
def strict_lab(strict_browser: Browser, lab_server: LabServer) -> Iterator[LabPage]:
    yield from opened_in(strict_browser, lab_server)


def opened_in(browser: Browser, server: LabServer) -> Iterator[LabPage]:
    context = browser.new_context(**WINDOW)
    lab = LabPage(context.new_page(), server)
    lab.open()
    yield lab
    context.close()


def show_app(lab: LabPage, tpu: dict[str, Any], **target: Any) -> None:
    """As the dialogs of the panel do."""
    target = {"tpu": f"{tpu['zone']}/{tpu['name']}", **target}
    execute = "target => void window.jupyterapp.commands.execute('tpu:show-app', target)"
    lab.page.evaluate(execute, target)


@pytest.fixture
def host(tpu: dict[str, Any], lab_server: LabServer) -> Iterator[HostServer]:
    server = HostServer(tpu["hosts"][0]["internal_address"], lab_server.url)
    yield server
    server.server.shutdown()
    server.server.server_close()


class Neighbour:
    """Another program of this machine, which notes what it is asked to do."""

    def __init__(self) -> None:
        self.posts: list[str] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Type", "text/javascript")
                self.end_headers()

            def do_POST(self) -> None:
                outer.posts.append(self.path)
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def neighbour() -> Iterator[Neighbour]:
    neighbour = Neighbour()
    yield neighbour
    neighbour.server.shutdown()
    neighbour.server.server_close()


def frame_of(page: Page) -> Any:
    return page.locator(".jp-tpu-App:not(.lm-mod-hidden) iframe").content_frame


def test_a_page_of_a_host_opens_in_a_tab_and_again_after_a_reload(lab, tpu, host):
    page, name = lab.page, tpu["name"]
    lab.resize(320)
    lab.open_page(name).get_by_role("button", name=f"Open a web app on {name}").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Port on the TPU").fill(str(host.port))
    dialog.get_by_role("button", name="Open").click()
    expect(frame_of(page).get_by_text("A friendly page")).to_be_visible()
    details = lab.open_page(name)
    apps = details.get_by_role("list", name=f"Web apps on {name}")
    expect(apps).to_contain_text(f"Port {host.port}")
    expect(apps).to_contain_text("open")
    # Tunnels are beside it.
    details.get_by_role("button", name=f"New tunnel to {name}").click()
    dialog.get_by_label("Port on the TPU").fill(str(host.port))
    dialog.get_by_role("button", name="Open").click()
    tunnels = details.get_by_role("list", name=f"Tunnels to {name}")
    expect(tunnels).to_contain_text(f"to port {host.port}")
    tunnels.get_by_role("button", name=re.compile("Close the tunnel")).click()
    expect(tunnels).to_have_count(0)

    # The layout keeps what was shown, and no address.
    def stored() -> str:
        return json.dumps(lab.server.request("GET", "lab/api/workspaces/"))

    # JupyterLab stores it some time after a change: first with the app's tab in front, then with
    # the TPU's page.
    def is_stored() -> bool:
        text = stored()
        return f'"port": {host.port}' in text and '"current": "jupyter-tpu-pages:' in text

    until(is_stored, 60, stored)
    assert ".localhost" not in stored()
    page.goto(f"{lab.server.url}/lab?token={lab.server.token}")
    # The TPU's page is there again, too, and in front.
    close = page.get_by_role("button", name=f"Close Port {host.port}")
    expect(close).to_be_visible()
    page.get_by_role("tab", name=f"Port {host.port}").click()
    expect(frame_of(page).get_by_text("A friendly page")).to_be_visible()
    # Closed there: the tab says so, and opens it again.
    lab.open_page(name)
    close.click()
    page.get_by_role("tab", name=f"Port {host.port}").click()
    closed = page.locator(".jp-tpu-App")
    expect(closed).to_contain_text(f"Port {host.port} is closed")
    closed.get_by_role("button", name="Open Again").click()
    expect(frame_of(page).get_by_text("A friendly page")).to_be_visible()


def test_a_hostile_page_gets_nothing_of_jupyter(lab, tpu, host):
    page, server = lab.page, lab.server
    address = page.url
    # Somebody is logged in: the browser has Jupyter's cookies, and sends them where it may.
    names = {cookie["name"] for cookie in page.context.cookies(server.url)}
    assert "_xsrf" in names
    assert any(name.startswith("username-") for name in names)
    show_app(lab, tpu, port=host.port, path="/hostile")
    expect(frame_of(page).get_by_text("All was tried")).to_be_visible(timeout=120_000)
    assert page.url == address
    # The same in a window of its own.
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="Open in a new window").click()
    expect(opened.value.get_by_text("All was tried")).to_be_visible(timeout=120_000)
    framed, own = host.reports
    for report in (framed, own):
        assert len(report) > 12
        assert {name: said for name, said in report.items() if said.startswith("GOT")} == {}
    assert framed["opener"] == "no: no opener"
    assert own["opener"] == "no: no opener"
    assert server.request("GET", "api/terminals") == []
    assert server.request("GET", "api/kernels") == []
    assert host.requests
    for name in names:
        assert name not in host.cookies()
    assert "jupyter" not in host.cookies()
    # That this can fail is seen where the same page is opened at another port of Jupyter's name.
    tunnel = server.call("POST", f"tpus/{tpu['name']}/tunnels", {"port": host.port})
    beside = page.context.new_page()
    beside.goto(f"http://127.0.0.1:{tunnel['local_port']}/")
    expect(beside.get_by_text("A friendly page")).to_be_visible()
    assert "_xsrf" in host.cookies()
    server.call("DELETE", f"tpus/{tpu['name']}/tunnels/{tunnel['id']}")


#: From each of its own documents, in frames and a window, a page sends to another program.
USE_NEIGHBOUR = """async ([neighbour, documents]) => {
  const loaded = (element, src) => new Promise(done => {
    element.onload = element.onerror = () => done(element);
    element.src = src;
    document.body.append(element);
  });
  const send = async (window, name) => {
    const {document, navigator} = window;
    const at = way => `${neighbour}/${name}/${way}`;
    navigator.sendBeacon(at('beacon'), 'x');
    const frame = document.createElement('iframe');
    const form = document.createElement('form');
    frame.name = 'answer';
    Object.assign(form, {method: 'post', action: at('form'), target: frame.name});
    document.body.append(frame, form);
    form.submit();
    const link = document.createElement('a');
    Object.assign(link, {ping: at('ping'), href: '#here'});
    document.body.append(link);
    link.click();
    await window.fetch(at('fetch'), {method: 'POST', mode: 'no-cors', body: 'x'}).catch(() => 0);
  };
  for (const [name, path] of Object.entries(documents)) {
    const frame = await loaded(document.createElement('iframe'), path);
    if (!frame.contentDocument) throw new Error(`${name} is out of reach`);
    await send(frame.contentWindow, name);
  }
  const [[name, path]] = Object.entries(documents);
  const popup = window.open(path);
  while (popup.location.href === 'about:blank' || popup.document.readyState !== 'complete')
    await new Promise(done => setTimeout(done, 20));
  await send(popup, name + ' window');
  popup.close();
  const registered = await navigator.serviceWorker.register('/worker.js')
    .then(() => true, () => false);
  // A script may be loaded from anywhere: what was sent before it has arrived by now.
  await loaded(document.createElement('script'), neighbour + '/last');
  return registered;
}"""


@pytest.mark.parametrize("allow_external", [False, True], ids=["confined", "external"])
def test_no_document_of_an_app_lets_its_pages_use_other_programs(
    plain_browser, lab_server, tpu, host, neighbour, allow_external
):
    """Frames and popups of our own error pages are of the page's origin: it can script them."""
    host.headers["Content-Security-Policy"] = f"img-src 'none'; report-uri {neighbour.url}/report"
    opened = lab_server.call(
        "POST", f"tpus/{tpu['name']}/apps", {"port": host.port, "allow_external": allow_external}
    )
    visit = lab_server.call("POST", f"apps/{opened['id']}/visits", {})
    context = plain_browser.new_context()
    page = context.new_page()
    page.goto(visit["url"])
    documents = {
        "too long": "/" + "a" * 70_000,  # aiohttp's own 400
        "no session": "/.jupyter-tpu/enter/wrong",  # 401
        "storage": "/.jupyter-tpu/storage",
        "page": "/",
    }
    registered = page.evaluate(USE_NEIGHBOUR, [neighbour.url, documents])
    lab_server.call("DELETE", f"apps/{opened['id']}")
    page.evaluate(USE_NEIGHBOUR, [neighbour.url, {"closed": "/"}])  # 421
    context.close()
    assert registered is allow_external
    if allow_external:  # so what is sent is seen
        ways = {f"/page/{way}" for way in ("beacon", "form", "ping", "fetch")}
        until(lambda: ways <= set(neighbour.posts), 60, lambda: str(neighbour.posts))
        # Up to 3.14.0, aiohttp passes a long path on that comes in parts: it is the host's page.
        passed = any(path.startswith("/aaa") for path, _ in host.requests)
        served = {"page", "too%20long"} if passed else {"page"}
        # The oldest answers by itself, without our policy.
        by_aiohttp = {"too%20long", "too%20long%20window"} - served if IS_OLD else set()
        assert {path.split("/")[1] for path in neighbour.posts} - by_aiohttp == served
    else:
        assert neighbour.posts == []


#: A page that calls its server at the address that the server was given for it, as Gradio's do.
ABSOLUTE = """<p>waiting</p><script>
fetch('ADDRESS/answer').then(async answer => {
  document.querySelector('p').textContent = await answer.text();
});
</script>"""


def test_a_page_can_call_its_server_by_an_absolute_address(plain_browser, lab_server, tpu, host):
    opened = lab_server.call(
        "POST", f"tpus/{tpu['name']}/apps", {"port": host.port, "path": "/absolute"}
    )
    visit = lab_server.call("POST", f"apps/{opened['id']}/visits", {})
    context = plain_browser.new_context()
    page = context.new_page()
    page.goto(visit["url"])
    expect(page.get_by_text("A friendly page")).to_be_visible()
    context.close()


#: A page that needs storage.
STORAGE = """<p>waiting</p><script>
const say = text => document.querySelector('p').textContent = text;
try { localStorage.setItem('key', 'value'); say('Stored'); } catch { say('No storage'); }
</script>"""


@pytest.mark.long  # it starts a browser of its own, with an option that few have set
def test_where_the_browser_blocks_storage_a_tab_says_so_and_opens_a_window(
    strict_lab, lab, tpu, host
):
    show_app(lab, tpu, port=host.port, path="/storage")
    expect(frame_of(lab.page).get_by_text("Stored")).to_be_visible()
    expect(lab.page.get_by_text("Your browser blocks storage")).to_have_count(0)

    page = strict_lab.page
    show_app(strict_lab, tpu, port=host.port, path="/storage")
    expect(frame_of(page).get_by_text("No storage")).to_be_visible()
    notice = page.get_by_role("note").filter(has_text="Your browser blocks storage")
    expect(notice).to_be_visible()
    with page.context.expect_page() as opened:
        notice.get_by_role("button", name="Open in a New Window").click()
    expect(opened.value.get_by_text("Stored")).to_be_visible()
    notice.get_by_role("button", name="Dismiss").click()
    expect(notice).to_be_hidden()
    expect(frame_of(page).get_by_text("No storage")).to_be_visible()


def open_missing_folder(lab: LabPage, tpu: dict[str, Any]) -> Locator:
    """The tab that says so."""
    lab.act(tpu["name"], "Web Apps and Ports", "Open TensorBoard…")
    dialog = lab.page.get_by_role("dialog")
    dialog.get_by_role("textbox").fill("~/later")
    dialog.get_by_role("button", name="Open").click()
    tab = lab.page.locator(".jp-tpu-App")
    expect(tab).to_contain_text("TensorBoard has nothing to show")
    expect(tab).to_contain_text(re.compile(r"The folder /home/\S+ does not exist\."))
    return tab


@pytest.mark.long
def test_where_the_browser_blocks_storage_tensorboard_opens_in_a_window(strict_lab, tpu):
    page = strict_lab.page
    tab = open_missing_folder(strict_lab, tpu)
    tab.get_by_role("button", name="Open Anyway").click()
    expect(tab).to_contain_text("TensorBoard does not work in this tab", timeout=240_000)
    with page.context.expect_page() as opened:
        tab.get_by_role("button", name="Open in a New Window").click()
    # It has loaded its data: there is none.
    expect(opened.value.get_by_text("No dashboards are active")).to_be_visible(timeout=120_000)
    opened.value.screenshot(path=OUT / "tensorboard-window.png")

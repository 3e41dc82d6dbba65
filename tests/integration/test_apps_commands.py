"""``jupyter tpu app``: real commands, beside a real server and without one."""

import http.client
import http.server
import re
import signal
import stat
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from cli_shell import COMMAND, LIMIT, running_server

ZONE = "us-central1-a"


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"hello from the host")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def tpu(create_tpu: Any) -> dict[str, Any]:
    return create_tpu(zone=ZONE)


@pytest.fixture
def port(tpu: dict[str, Any]) -> Iterator[int]:
    """Where the TPU's host serves a page."""
    address = tpu["networkEndpoints"][0]["ipAddress"]
    server = http.server.ThreadingHTTPServer((address, 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


def visit(url: str) -> str:
    """What a browser sees that opens *url*."""
    parts = urlsplit(url)
    assert parts.port is not None
    assert parts.hostname.endswith(".localhost")
    connection = http.client.HTTPConnection("127.0.0.1", parts.port, timeout=LIMIT)
    headers = {"Host": parts.netloc, "Sec-Fetch-Site": "none"}
    connection.request("GET", f"{parts.path}?{parts.query}", headers=headers)
    answer = connection.getresponse()
    answer.read()
    assert answer.status == 303, answer.status
    headers["Cookie"] = answer.headers["Set-Cookie"].partition(";")[0]
    connection.request("GET", answer.headers["Location"], headers=headers)
    text = connection.getresponse().read().decode()
    connection.close()
    return text


@pytest.mark.long
def test_an_app_is_opened_listed_and_closed(shell, tpu, port):
    name = tpu["name"].rpartition("/")[2]
    with running_server(shell):
        opened = shell.run("app", name, str(port), "--no-browser")
        assert opened.returncode == 0, opened.stderr
        match = re.fullmatch(rf"Port {port} of {name}: (http://\S+)\n", opened.stdout)
        assert match, opened.stdout
        assert visit(match[1]) == "hello from the host"
        assert "works once" in opened.stderr
        # A browser is started with a file that only its user can read, not with the address.
        said = shell.folder / "browser.txt"
        starter = shell.folder / "browser"
        starter.write_text(f'#!/bin/sh\necho "$@" >{said}\n')
        starter.chmod(0o755)
        shell.environment["BROWSER"] = f"{starter} %s"
        shell.out("app", name, str(port))
        (path,) = said.read_text().split()
        assert ".localhost" not in path
        file = Path(urlsplit(path).path)
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        [url] = re.findall(r"url=(http://[^\"]+)", file.read_text())
        assert visit(url) == "hello from the host"
        [listed] = shell.json("app", "list", "--json")
        assert (listed["tpu"], listed["port"], listed["state"]) == (name, port, "open")
        assert re.search(rf"Port {port} +{name} +{port} +/ +open", shell.out("app", "list"))
        assert f"Closed Port {port} of {name}" in shell.out("app", "close", str(port))
        assert "No apps are open" in shell.out("app", "list")
        wide = shell.run("app", name, str(port), "--no-browser", "--allow-external")
        assert "Open only apps you trust" in wide.stderr
        [listed] = shell.json("app", "list", "--json")
        assert listed["allow_external"]
        shell.out("app", "close", str(port))
        for words, why in (
            (["close", "9"], "The app 9 does not exist"),
            (["open", name], "Missing argument 'PORT'"),
            ([name, "0"], "0 is not a port"),
            ([name, "70000"], "70000 is not a port"),
            (["open", name, "web"], "'web' is not a valid integer"),
            ([name, "80", "--worker", "7"], "has no host 7"),
            ([name, "80", "--path", "x"], "'x' is not a path"),
            (["nothing", "80"], "The TPU nothing does not exist"),
        ):
            assert why in shell.complaint("app", *words), words
        assert "No kernel runs on" in shell.complaint("profile", name)
        assert "is not a folder" in shell.complaint("tensorboard", name, "--logdir", " ")


def test_without_a_server_an_app_lasts_as_long_as_the_command(shell, tpu, port):
    name = tpu["name"].rpartition("/")[2]
    process = subprocess.Popen(
        [*COMMAND, "app", name, str(port), "--no-browser"],
        env=shell.environment,
        cwd=shell.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    line = process.stdout.readline()
    url = line.partition(": ")[2].strip()
    assert visit(url) == "hello from the host"
    assert process.stdout.readline() == "Press Ctrl-C to close it.\n"
    process.send_signal(signal.SIGINT)
    assert process.wait(LIMIT) == 1
    with pytest.raises(OSError, match=r"refused|reset"):
        visit(url)

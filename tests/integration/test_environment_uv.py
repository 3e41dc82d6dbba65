"""uv comes from the package index that the host is set to use, and only if its hash is right."""

import base64
import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from jupyter_tpu.on_host.calls import paths
from jupyter_tpu.on_host.calls.protocol import HostError
from jupyter_tpu.on_host.environments import probe, uv

NEWEST = "uv-0.99.2-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
OTHERS = (
    "uv-0.99.1-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    "uv-1.0.0rc1-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl",
    "uv-2.0.0-py3-none-win_amd64.whl",
    "uv-2.0.0-py3-none-manylinux_2_99_x86_64.whl",
    "uv-2.0.0.tar.gz",
)
SCRIPT = b"#!/bin/sh\necho uv 0.99.2\n"


@cache
def wheel() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("uv-0.99.2.data/scripts/uv", SCRIPT)
    return file.getvalue()


class Index(ThreadingHTTPServer):
    """A package index on loopback; ``form`` is "json" (PEP 691) or "html" (PEP 503)."""

    def __init__(self, form: str) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.form = form
        self.sha256 = hashlib.sha256(wheel()).hexdigest()
        self.logins: list[str] = []

    @property
    def url(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}/simple"


class _Answer(BaseHTTPRequestHandler):
    server: Index

    def do_GET(self) -> None:
        self.server.logins.append(self.headers.get("Authorization", ""))
        kind = "application/octet-stream"
        if self.path.endswith(".whl"):
            body = wheel()
        elif self.server.form == "json":
            kind = "application/vnd.pypi.simple.v1+json"
            files = [{"filename": NEWEST, "url": f"../../files/{NEWEST}", "yanked": False}]
            files += [{"filename": name, "url": name, "yanked": False} for name in OTHERS]
            yanked = NEWEST.replace("0.99.2", "0.99.9")
            files.append({"filename": yanked, "url": yanked, "yanked": "broken"})
            for file in files:
                file["hashes"] = {"sha256": self.server.sha256}
            body = json.dumps({"files": files}).encode()
        else:
            kind = "text/html"
            links = [f'<a href="{n}#sha256={self.server.sha256}">{n}</a>' for n in OTHERS]
            links.append(f'<a href="../../files/{NEWEST}#sha256={self.server.sha256}">x</a>')
            links.append(f'<a data-yanked href="{NEWEST.replace("0.99.2", "0.99.9")}">x</a>')
            body = "\n".join(links).encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(params=["json", "html"])
def index(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Index]:
    """An index, and a host (this process) that is set to use it and has no uv of that version."""
    server = Index(request.param)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for module in (paths, uv):
        monkeypatch.setattr(module, "ROOT", str(tmp_path / "root"))
        monkeypatch.setattr(module, "HOME", str(tmp_path))
    monkeypatch.setattr(uv.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(uv.platform, "libc_ver", lambda: ("glibc", "2.35"))
    monkeypatch.setenv("PATH", "/nowhere")
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", f"http://user:p%40ss@{server.url}")
    yield server
    server.shutdown()
    server.server_close()


def test_the_newest_uv_for_this_host_is_fetched_with_the_indexs_login(index, tmp_path, capsys):
    program = uv.get_uv()["uv"]
    assert Path(program) == tmp_path / "root/bin/uv"
    assert Path(program).read_bytes() == SCRIPT
    login = "Basic " + base64.b64encode(b"user:p@ss").decode()
    assert index.logins == [login, login]
    output = capsys.readouterr().out
    assert NEWEST in output
    assert "p%40ss" not in output
    assert "p@ss" not in output
    # The second time it is there.
    assert probe.find_uv() == program
    assert uv.get_uv()["uv"] == program
    assert len(index.logins) == 2


def test_an_uv_that_is_not_what_the_index_promises_is_not_kept(index, tmp_path):
    index.sha256 = "0" * 64
    with pytest.raises(HostError) as problem:
        uv.get_uv()
    reason, message, _ = problem.value.payload
    assert reason == "ENVIRONMENT"
    assert "does not match the checksum in the package index" in message
    assert "p%40ss" not in message
    assert list((tmp_path / "root/bin").iterdir()) == []


def test_an_index_that_does_not_answer_is_named(index):
    index.shutdown()
    index.server_close()
    with pytest.raises(HostError, match=r"uv could not be downloaded from http://127\.0\.0\.1"):
        uv.get_uv()

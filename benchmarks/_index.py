"""A package index on loopback that serves a folder of wheels and counts the bytes."""

from __future__ import annotations

import contextlib
import hashlib
import html
import re
import threading
import zipfile
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Index:
    """What a client needs to know of it."""

    def __init__(self, folder: Path, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/simple"
        self.sent = 0  # bytes of bodies
        self._lock = threading.Lock()
        self._wheels: dict[str, list[Path]] = {}
        for wheel in sorted(folder.glob("*.whl")):
            project = re.sub(r"[-_.]+", "-", wheel.name.partition("-")[0]).lower()
            self._wheels.setdefault(project, []).append(wheel)
        self._files = {wheel.name: wheel for wheels in self._wheels.values() for wheel in wheels}

    def body(self, path: str) -> bytes | None:
        """As PEP 503 says, with the wheels' metadata beside them (PEP 658); None: not found."""
        match path.strip("/").split("/"):
            case ["simple", project] if project in self._wheels:
                return "".join(map(link, self._wheels[project])).encode()
            case ["files", name] if name in self._files:
                return self._files[name].read_bytes()
            case ["files", name] if name.removesuffix(".metadata") in self._files:
                return metadata(self._files[name.removesuffix(".metadata")])
        return None

    def count(self, size: int) -> None:
        with self._lock:
            self.sent += size


@cache
def link(wheel: Path) -> str:
    sha, its = (hashlib.sha256(data).hexdigest() for data in (wheel.read_bytes(), metadata(wheel)))
    return (
        f'<a href="/files/{html.escape(wheel.name)}#sha256={sha}" '
        f'data-core-metadata="sha256={its}">{html.escape(wheel.name)}</a>\n'
    )


@cache
def metadata(wheel: Path) -> bytes:
    with zipfile.ZipFile(wheel) as opened:
        [name] = [
            path for path in opened.namelist() if re.fullmatch(r"[^/]*\.dist-info/METADATA", path)
        ]
        return opened.read(name)


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[Index]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = index.body(self.path)
            self.send_response(200 if body is not None else 404)
            self.send_header(
                "Content-Type",
                "text/html" if "/simple/" in self.path else "application/octet-stream",
            )
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")
            index.count(len(body or b""))

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        index = Index(folder, server.server_address[1])
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield index
        finally:
            server.shutdown()

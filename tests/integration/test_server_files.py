"""Files of a host over REST: uploaded and downloaded whole, or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPMessage, IncompleteRead
from typing import Any
from urllib.parse import urlencode

import pytest
from adoption_server import Server
from waiting import until

MIB = 1 << 20


@pytest.fixture(scope="module")
def tpu(emulator: Any) -> Iterator[str]:
    with emulator.tpu("files") as node:
        yield node["name"].rpartition("/")[2]


@pytest.fixture(scope="module")
def server(emulator: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that accepts only small bodies elsewhere."""
    folder = tmp_path_factory.mktemp("files")
    server = Server(folder, emulator.environment, f"--ServerApp.max_body_size={MIB}")
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def on_host(server: Server, tpu: str) -> Callable[[str], str]:
    """``on_host(line)``: what a shell prints in the home folder of host 0."""

    def run(line: str) -> str:
        found = subprocess.run(
            [sys.executable, "-m", "jupyter_tpu.cli", "ssh", tpu, "--", line],
            env={**server.environment, "JUPYTER_TOKEN": server.token},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert found.returncode == 0, found.stderr
        return found.stdout

    return run


Answer = tuple[int, HTTPMessage, bytes]


@pytest.fixture(scope="module")
def call(server: Server, tpu: str) -> Callable[..., Answer]:
    """``call(method, path, body)``: status, headers and content. The path has no ``files``."""

    def call(
        method: str, path: str, body: bytes | None = None, what: str = "/content", **query: str
    ) -> Answer:
        connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
        try:
            connection.request(
                method,
                f"{url(tpu)}{what}?" + urlencode({"path": path, **query}),
                body,
                {"Authorization": f"token {server.token}"},
            )
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    return call


def url(tpu: str, host: object = 0) -> str:
    return f"/jupyter-tpu/v1/tpus/{tpu}/hosts/{host}/files"


def begin_upload(server: Server, tpu: str, path: str, size: int, sent: bytes) -> HTTPConnection:
    """A request that announces *size* bytes, of which *sent* are on their way."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.putrequest("PUT", f"{url(tpu)}/content?path={path}")
    connection.putheader("Authorization", f"token {server.token}")
    connection.putheader("Content-Length", str(size))
    connection.endheaders(sent)
    return connection


def refused(answer: Answer) -> tuple[int, str]:
    problem = json.loads(answer[2])
    assert problem["message"]
    return answer[0], problem["reason"]


def test_20_mib_arrive_whole_in_both_directions(call: Callable[..., Answer]) -> None:
    content = os.urandom(20 * MIB)
    status, _, answer = call("PUT", "big.bin", content)
    assert (status, json.loads(answer)) == (201, {"path": "big.bin", "size": len(content)})
    assert json.loads(call("GET", "~/big.bin", what="")[2]) == {
        "path": "big.bin",
        "size": len(content),
    }
    status, headers, back = call("GET", "big.bin")
    assert (status, len(back)) == (200, len(content))
    assert hashlib.sha256(back).digest() == hashlib.sha256(content).digest()
    assert headers["Content-Type"] == "application/octet-stream"
    assert headers["Content-Disposition"] == "attachment; filename*=UTF-8''big.bin"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_a_file_that_exists_is_replaced_only_on_request(
    call: Callable[..., Answer], on_host: Callable[[str], str]
) -> None:
    on_host("mkdir -p kept && echo old > kept/a && chmod 600 kept/a && ln -s a kept/link")
    # It is larger than what can wait on the way: the answer comes after the body.
    assert refused(call("PUT", "kept/a", bytes(20 * MIB))) == (409, "EXISTS")
    assert call("GET", "kept/a")[2] == b"old\n"
    assert refused(call("PUT", "kept/a", b"", overwrite="perhaps")) == (400, "INVALID")
    assert call("PUT", "kept/link", b"new", overwrite="true")[0] == 201
    assert on_host("stat -c %a kept/a; cat kept/a; readlink kept/link; ls -A kept") == (
        "600\nnewa\na\nlink\n"
    )


def test_any_name_is_the_name_on_the_host(
    call: Callable[..., Answer], on_host: Callable[[str], str]
) -> None:
    names = ["an empty name.txt", " -rf $(x) '\"; ~", "naïve 日本.npy", "tab\tand\nline", "x" * 255]
    on_host("mkdir odd")
    for name in names:
        assert call("PUT", f"odd/{name}", b"")[0] == 201
        status, headers, content = call("GET", f"odd/{name}")
        assert (status, content, headers["Content-Length"]) == (200, b"", "0")
    shown = on_host("python3 -c 'import os; print(ascii(sorted(os.listdir(\"odd\"))))'")
    assert shown.strip() == ascii(sorted(names))


def test_an_absolute_path_is_one(
    call: Callable[..., Answer], on_host: Callable[[str], str]
) -> None:
    assert call("PUT", "/tmp/jupyter-tpu-file", b"x", overwrite="true")[0] == 201
    assert on_host("cat /tmp/jupyter-tpu-file; rm /tmp/jupyter-tpu-file") == "x"


@pytest.mark.parametrize("path", ["", "/", "a/", "a//b", "../a", "a/./b", "a\0b", "~/"])
def test_a_path_that_is_not_clear_is_refused(call: Callable[..., Answer], path: str) -> None:
    for method, body in (("GET", None), ("PUT", b"x")):
        assert refused(call(method, path, body)) == (400, "INVALID")


def test_what_is_no_file_is_refused_with_its_reason(
    server: Server, tpu: str, call: Callable[..., Answer], on_host: Callable[[str], str]
) -> None:
    on_host("mkdir -p folder && mkfifo folder/pipe && echo x > folder/secret && chmod 0 folder/s*")
    for what in ("", "/content"):
        assert refused(call("GET", "missing", what=what)) == (404, "NOT_FOUND")
        assert refused(call("GET", "folder", what=what)) == (400, "INVALID")
        assert refused(call("GET", "folder/pipe", what=what)) == (400, "INVALID")
    assert refused(call("GET", "folder/secret")) == (403, "PERMISSION")
    assert refused(call("PUT", "missing/a", b"x")) == (404, "NO_FOLDER")
    for overwrite in ("true", "false"):
        assert refused(call("PUT", "folder", b"x", overwrite=overwrite)) == (400, "INVALID")
    assert refused(call("PUT", "/proc/a", b"x"))[1] in ("PERMISSION", "NOT_FOUND")
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    for path, reason in ((url(tpu, 7), "NOT_FOUND"), (url("no-such-tpu"), "NOT_FOUND")):
        headers = {"Authorization": f"token {server.token}"}
        connection.request("GET", f"{path}?path=a", headers=headers)
        assert json.loads(connection.getresponse().read())["reason"] == reason


def test_a_broken_upload_leaves_nothing(
    server: Server, tpu: str, on_host: Callable[[str], str]
) -> None:
    on_host("mkdir broken")
    connection = begin_upload(server, tpu, "broken/a", 9 * MIB, bytes(3 * MIB))
    until(lambda: ".upload-" in on_host("ls -A broken"))
    connection.close()
    until(lambda: on_host("ls -A broken") == "")


def test_a_full_disk_is_one_sentence_and_leaves_nothing(
    server: Server, tpu: str, on_host: Callable[[str], str]
) -> None:
    """Where it is known before, the answer does not wait for the body."""
    on_host("mkdir full")
    connection = begin_upload(server, tpu, "full/a", 1 << 60, b"x")
    problem = json.loads(connection.getresponse().read())
    assert problem["reason"] == "DISK_FULL"
    assert problem["message"].startswith("The disk of ")
    assert on_host("ls -A full") == ""


def test_a_download_that_breaks_is_not_complete(
    server: Server, tpu: str, on_host: Callable[[str], str]
) -> None:
    on_host("truncate -s 100M shrinks")
    connection = HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request(
        "GET",
        f"{url(tpu)}/content?path=shrinks",
        headers={"Authorization": f"token {server.token}"},
    )
    answer = connection.getresponse()
    assert answer.headers["Content-Length"] == str(100 * MIB)
    answer.read(MIB)
    on_host("truncate -s 1M shrinks")
    with pytest.raises(IncompleteRead):
        answer.read()

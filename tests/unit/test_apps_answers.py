"""All that the apps' port answers has the policy, aiohttp's own answers, too."""

import asyncio
from typing import cast

import pytest

from jupyter_tpu.apps.listener import AppServer
from jupyter_tpu.apps.upstream import Upstream


async def answer_to(port: int, request: str) -> tuple[str, dict[str, str]]:
    """The status line and the headers, their names in lower case."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request.replace("\n", "\r\n").encode())
    async with asyncio.timeout(30):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
    writer.close()
    status, *lines = head.strip().split("\r\n")
    headers = (line.split(": ", 1) for line in lines)
    return status, {name.lower(): value for name, value in headers}


@pytest.mark.parametrize(
    ("line", "more", "status"),
    [
        ("GET / HTTP/1.1", "", 401),
        ("GET / HTTP/1.1", "Expect: the-worst\n", 417),
        ("POST / HTTP/1.1", "Expect: 200-maybe\nContent-Length: 3\n", 417),
        ("CONNECT 127.0.0.1:22 HTTP/1.1", "", 404),
        ("OPTIONS * HTTP/1.1", "", 404),
        ("GET http://127.0.0.1:22/ HTTP/1.1", "", 0),
        ("TRACE / HTTP/1.1", "", 401),
        ("BREW / HTTP/1.1", "", 0),
        ("GET / HTTP/9.9", "", 0),
        ("nonsense", "", 400),
    ],
)
async def test_an_answer_has_the_policy(line, more, status):
    apps = AppServer()
    try:
        site = await apps.add(cast(Upstream, None), "an app", "app")
        for host in (site.origin.host, "other.localhost"):
            status_line, headers = await answer_to(apps.port, f"{line}\nHost: {host}\n{more}\n")
            assert "default-src 'none'" in headers["content-security-policy"], status_line
            assert headers["x-content-type-options"] == "nosniff"
            if status and host == site.origin.host:
                assert f" {status} " in status_line
    finally:
        await apps.close()

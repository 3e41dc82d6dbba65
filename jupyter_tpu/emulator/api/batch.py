"""Several calls in one request, as gcloud sends them to Compute Engine when it names several
resources: each part of a multipart message is an HTTP request, and so is each part of the answer.
"""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from email.message import Message
from email.parser import BytesParser, HeaderParser

from aiohttp import ClientSession, web
from yarl import URL

from ..model import api_errors

#: Calls of one batch to Compute Engine, as Google allows.
_MOST_CALLS = 1000


def add_routes(app: web.Application) -> None:
    """``/batch/compute/v1``. Other APIs add theirs."""
    app.router.add_post("/batch/compute/{version:v1|beta|alpha}", batch("/compute/", _MOST_CALLS))


def batch(root: str, most: int) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Answers a batch of calls whose paths begin with *root*: at most *most*, as Google allows."""

    async def answer(request: web.Request) -> web.Response:
        head = f"Content-Type: {request.headers.get('Content-Type', '')}\r\n\r\n".encode()
        sent = BytesParser().parsebytes(head + await request.read())
        parts = [part for part in sent.walk() if part.get_content_type() == "application/http"]
        if not 0 < len(parts) <= most:
            raise api_errors.invalid_field(f"A batch has 1 to {most} calls, not {len(parts)}.")
        boundary = f"batch_{secrets.token_hex(12)}"
        answers = []
        assert request.transport is not None
        address, port = request.transport.get_extra_info("sockname")[:2]
        headers = {
            name: request.headers[name]
            for name in ("Authorization", "Host")
            if name in request.headers
        }
        before = request.path.partition("/batch/")[0]  # the folder of a host, or nothing
        async with ClientSession(f"http://{address}:{port}", headers=headers) as session:
            for part in parts:
                answer = await _call(session, part, before, root)
                id = str(part.get("Content-ID", "")).strip().removeprefix("<")
                answers.append(
                    f"--{boundary}\r\nContent-Type: application/http\r\n"
                    f"Content-ID: <response-{id}\r\n\r\n{answer}\r\n"
                )
        return web.Response(
            text="".join([*answers, f"--{boundary}--"]),
            headers={"Content-Type": f"multipart/mixed; boundary={boundary}"},
        )

    return answer


async def _call(session: ClientSession, part: Message, before: str, root: str) -> str:
    """The HTTP response to the request in *part*, whose path may be that of a whole URL."""
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    line, _, rest = content.decode(errors="replace").lstrip().partition("\n")
    method, path, *_ = [*line.split(), "", ""]
    if "://" in path:
        path = "/" + path.split("/", 3)[3]
    path = path.removeprefix(before)
    if not path.startswith(root):
        raise api_errors.invalid_field(f"The batch has a call of {path or 'nothing'}.")
    body = str(HeaderParser().parsestr(rest).get_payload()).strip()
    async with session.request(method, URL(before + path, encoded=True), data=body) as answer:
        text = await answer.text()
        return (
            f"HTTP/1.1 {answer.status} {answer.reason}\r\n"
            f"Content-Type: application/json; charset=UTF-8\r\n"
            f"Content-Length: {len(text.encode())}\r\n\r\n{text}"
        )

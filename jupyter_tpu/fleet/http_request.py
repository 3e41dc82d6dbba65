"""One HTTP request with the standard library, which commands load faster than aiohttp."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import socket
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple
from urllib.parse import quote, urlsplit

#: What a path and query may have as they are: RFC 3986's characters, and escapes.
_PATH = "!#$%&'()*+,-./:;=?@_~[]"


class RESTResponse(NamedTuple):
    """One HTTP answer, as it came."""

    status: int
    content_type: str
    body: bytes


class _UnixConnection(http.client.HTTPConnection):
    """To a server that listens on a unix socket."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


async def request(
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    *,
    socket_path: str,
    connect_limit: float,
    answer_limit: float,
) -> RESTResponse:
    """The answer, whatever its status; redirects are not followed.

    Each request has a connection of its own: no answer can be lost because a server has closed an
    idle one. Cancelling closes it.

    Parameters
    ----------
    socket_path: of the server's unix socket; "": the URL's address.
    connect_limit, answer_limit: seconds.

    Raises
    ------
    TimeoutError, OSError: no answer came; OSError also for one that is not HTTP.
    """
    address = urlsplit(url)
    connection: http.client.HTTPConnection
    if socket_path:
        connection = _UnixConnection(socket_path, connect_limit)
    elif address.scheme == "https":
        connection = http.client.HTTPSConnection(
            address.hostname or "", address.port, timeout=connect_limit
        )
    else:
        connection = http.client.HTTPConnection(
            address.hostname or "", address.port, timeout=connect_limit
        )
    path = quote(url.split("://", 1)[1].removeprefix(address.netloc) or "/", safe=_PATH)

    def exchange() -> RESTResponse:
        try:
            connection.connect()
            connection.sock.settimeout(None)  # `answer_limit` is for all of it
            connection.request(method, path, body, {**headers, "Connection": "close"})
            answer = connection.getresponse()
            return RESTResponse(answer.status, answer.headers.get_content_type(), answer.read())
        except http.client.HTTPException as error:
            raise OSError(str(error) or type(error).__name__) from None
        finally:
            connection.close()

    try:
        async with asyncio.timeout(answer_limit):
            return await _in_thread(exchange)
    finally:
        # Wakes the thread that still waits.
        with contextlib.suppress(OSError, AttributeError):
            connection.sock.shutdown(socket.SHUT_RDWR)


async def _in_thread(call: Callable[[], RESTResponse]) -> RESTResponse:
    """On a thread of its own; the process does not wait for it when it ends."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[RESTResponse] = loop.create_future()

    def end(answer: RESTResponse | None, error: BaseException | None) -> None:
        if future.done():
            return
        if answer is None:
            future.set_exception(error or RuntimeError("no answer"))
        else:
            future.set_result(answer)

    def run() -> None:
        answer, failed = None, None
        try:
            answer = call()
        except BaseException as error:
            failed = error
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(end, answer, failed)

    threading.Thread(target=run, name="jupyter-tpu request", daemon=True).start()
    return await future

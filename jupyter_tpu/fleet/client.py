"""The fleet of a running Jupyter server, over REST: for processes next to it.

:class:`FleetClient` has the methods of :class:`~jupyter_tpu.fleet.api.FleetAPI`;
:func:`follow` and :func:`wait_for_end` watch an operation of either. `servers` finds the server,
and decides whether it may get the token. Requests use the standard library, which commands load
faster than aiohttp.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import http.client
import logging
import re
import secrets
import socket
import ssl
import threading
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from ..errors import Reason, TPUError, error_for
from ..retired import refuse_tpu_node_address
from ..subscribers import Subscribers
from .api import FleetAPI
from .models import Change, Operation, Problem
from .routes import BY_CALL, PARTS, ROOT, Route

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
    context: ssl.SSLContext | None = None,
) -> RESTResponse:
    """The answer, whatever its status; redirects are not followed.

    Each request has a connection of its own: no answer can be lost because a server has closed an
    idle one. Cancelling closes it.

    Parameters
    ----------
    socket_path: of the server's unix socket; "": the URL's address.
    connect_limit, answer_limit: seconds.
    context: which certificates are trusted; None: the usual ones.

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
            address.hostname or "", address.port, timeout=connect_limit, context=context
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


PREFIX = f"{ROOT}/"
EVENTS = "api/events/subscribe"
CHANGE_SCHEMA = "https://events.jupyter-tpu.org/change/v1"

log = logging.getLogger(__name__)

#: Seconds: to connect, and for one answer. A delete or cancel waits for its cleaning up.
CONNECT_LIMIT = 5.0
ANSWER_LIMIT = 300.0
#: Seconds between two attempts to listen to events again.
EVENTS_AGAIN = 1.0

_REASONS = {
    400: Reason.INVALID,
    401: Reason.PERMISSION,
    403: Reason.PERMISSION,
    404: Reason.NOT_FOUND,
    409: Reason.CONFLICT,
    429: Reason.RATE_LIMITED,
    504: Reason.TIMEOUT,
}


class UntrustedServer(TPUError):
    """A Jupyter server shows a certificate that is not trusted (UNREACHABLE)."""


def _only(certificate: str) -> ssl.SSLContext:
    """Trusts this certificate alone, whatever names are in it and whoever made it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cadata=certificate)
    return context


class FleetClient:
    """The fleet behind *url*, a Jupyter server's base URL that ends in "/".

    Parameters
    ----------
    token: the server's; "" if it requires none.
    socket: the path of its unix socket, if it listens on one.
    certificate: the only one that it may show, as PEM; "": one that the system trusts.

    All coroutines run on one loop, that of the first call. Besides what the fleet raises, each
    raises UNREACHABLE when the server does not answer.

    The methods of :class:`FleetAPI` are not written out: each calls its route.
    """

    def __init__(self, url: str, token: str, *, socket: str = "", certificate: str = "") -> None:
        self.url = url
        self._context = _only(certificate) if certificate else None
        self._token = token
        self._socket = socket
        self._xsrf = secrets.token_hex(16)
        self._subscribers = Subscribers[Change]()
        self._listener: asyncio.Task[None] | None = None

    # ---- the fleet's methods -------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """The coroutine method of the fleet that a route calls, or a part that has such methods."""
        if name in PARTS:
            return _Part(self, name)
        return self._method(name)

    def _method(self, call: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        route = BY_CALL.get(call)
        if route is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {call!r}")
        return functools.partial(self._request, route)

    async def _request(self, route: Route, *arguments: Any) -> Any:
        """arguments: as :class:`Route` says; those with a default may be left out."""
        left = list(arguments)
        path = re.sub(r"{(\w+)}", lambda part: _path_part(part[1], left.pop(0)), route.path)
        body: msgspec.Struct | None = None
        if route.body is not None:
            body = next(filter(None, left), None)
        elif any(left):
            path += "?" + urlencode(_query(route, left))
        answer = await self._call(route.method, path, body)
        if route.answer is None:
            return None
        try:
            return msgspec.json.decode(answer.body, type=route.answer)
        except msgspec.DecodeError as error:
            raise TPUError(
                f"The Jupyter server at {self.url} sent an unexpected answer: {error}.",
                Reason.INTERNAL,
                "It may run another version of jupyter-tpu. Restart it.",
            ) from None

    def subscribe(self, callback: Callable[[Change], None]) -> Callable[[], None]:
        """Like the fleet's. Changes are missed while there is no connection to the server, so
        read the state again from time to time.
        """
        remove = self._subscribers.add(callback)
        if self._listener is None:
            self._listener = asyncio.get_running_loop().create_task(self._listen())

        def unsubscribe() -> None:
            remove()
            if not self._subscribers and self._listener is not None:
                self._listener.cancel()
                self._listener = None

        return unsubscribe

    async def close(self) -> None:
        """Ends the connection. The server and its operations continue."""
        self._subscribers.clear()
        if self._listener is not None:
            self._listener.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._listener
            self._listener = None

    # ---- HTTP ----------------------------------------------------------------------------------

    async def fetch(self, method: str, path: str, body: bytes | None = None) -> RESTResponse:
        """One request to *path* under the server's base URL, whatever the answer's status.

        Raises UNREACHABLE when there is no answer, TIMEOUT when it takes too long.
        """
        headers = self._headers()
        if body is not None:
            headers["Content-Type"] = "application/json"
        try:
            return await request(
                method,
                self._where(path),
                headers,
                body,
                socket_path=self._socket,
                connect_limit=CONNECT_LIMIT,
                answer_limit=ANSWER_LIMIT,
                context=self._context,
            )
        except TimeoutError:
            raise TPUError(
                f"The Jupyter server at {self.url} did not answer in time.",
                Reason.TIMEOUT,
                "See its log, or restart it.",
            ) from None
        except ssl.SSLCertVerificationError as error:
            raise UntrustedServer(
                f"The certificate of the Jupyter server at {self.url} is not trusted here "
                f"({error.verify_message or error}).",
                Reason.UNREACHABLE,
                "Restart that server with jupyter-tpu: it says which certificate it has.",
            ) from None
        except OSError as error:
            raise TPUError(
                f"The Jupyter server at {self.url} can't be reached "
                f"({error.strerror or error or type(error).__name__}).",
                Reason.UNREACHABLE,
                "Operations continue when it is started again.",
            ) from None

    async def _call(
        self, method: str, path: str, body: msgspec.Struct | None = None
    ) -> RESTResponse:
        content = None if body is None else msgspec.json.encode(body)
        answer = await self.fetch(method, PREFIX + path, content)
        if answer.status >= 300:
            raise error_of(answer, self.url)
        return answer

    def _where(self, path: str) -> str:
        # Through a unix socket the host's name is only a header.
        return ("http://localhost/" if self._socket else self.url) + path

    def _headers(self) -> dict[str, str]:
        if self._token:
            return {"Authorization": f"token {self._token}"}
        # Requests without a token must pass the XSRF check, which compares a cookie with a header.
        return {"X-XSRFToken": self._xsrf, "Cookie": f"_xsrf={self._xsrf}"}

    async def _listen(self) -> None:
        """Dispatches the server's events, and reconnects when the connection breaks."""
        import aiohttp

        connector = aiohttp.UnixConnector(self._socket) if self._socket else None
        where = self._where(EVENTS)
        limit = aiohttp.ClientTimeout(sock_connect=CONNECT_LIMIT)
        jar = aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(
            connector=connector, headers=self._headers(), timeout=limit, cookie_jar=jar
        ) as session:
            while True:
                with contextlib.suppress(aiohttp.ClientError, asyncio.TimeoutError):
                    trusted = self._context if self._context is not None else True
                    async with session.ws_connect(where, heartbeat=10, ssl=trusted) as events:
                        async for message in events:
                            if message.type is aiohttp.WSMsgType.TEXT:
                                self._dispatch(message.data)
                await asyncio.sleep(EVENTS_AGAIN)

    def _dispatch(self, text: str) -> None:
        try:
            event = msgspec.json.decode(text, type=dict[str, Any])
            if event.get("schema_id") != CHANGE_SCHEMA:
                return
            change = msgspec.convert(event, Change)
        except (msgspec.DecodeError, RecursionError) as error:  # of another version, for example
            log.warning("Ignored an event of the Jupyter server that can't be read: %s", error)
            return
        for subscriber in self._subscribers:
            try:
                subscriber(change)
            except Exception:  # the other subscribers, and later events, are not its business
                log.exception("A change of %s %s was not handled", change.what, change.id)


class _Part:
    """A part of the fleet, such as its tunnels."""

    def __init__(self, client: FleetClient, name: str) -> None:
        self._client = client
        self._name = name

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        return self._client._method(f"{self._name}.{name}")


def error_of(answer: RESTResponse, url: str) -> TPUError:
    """The error that a failed answer reports."""
    try:
        problem = msgspec.json.decode(answer.body, type=Problem)
    except msgspec.DecodeError:
        reason = _REASONS.get(answer.status, Reason.INTERNAL)
        return error_for(
            f"The Jupyter server at {url} answered {answer.status}{_server_message(answer)}.",
            reason,
            "Check its token."
            if reason is Reason.PERMISSION
            else "Check the path, and that the server has the jupyter-tpu extension "
            "(`jupyter server extension list`)."
            if reason is Reason.NOT_FOUND
            else "See its log.",
        )
    return problem.to_error()


def _server_message(answer: RESTResponse) -> str:
    """The message of Jupyter Server's own error bodies: {"message": …, "reason": …}."""
    try:
        body: Any = msgspec.json.decode(answer.body)
    except msgspec.DecodeError:
        return ""
    message = body.get("message") if isinstance(body, dict) else None
    return f": {message.rstrip('.')}" if isinstance(message, str) and message else ""


def _query(route: Route, arguments: list[Any]) -> dict[str, Any]:
    if route.query_model is None:
        values = dict(zip(route.query, arguments, strict=False))
    else:
        values = msgspec.to_builtins(arguments[0])
    return {name: value for name, value in values.items() if value is not None}


def _path_part(name: str, value: str) -> str:
    """``zone/name`` of a TPU is spelled ``zone~name`` in a path."""
    if name == "tpu":
        refuse_tpu_node_address(value)  # which no path could have
    return quote(value.replace("/", "~", 1) if name == "tpu" else value, safe="~")


async def follow(
    fleet: FleetAPI, operation: Operation, *, every: float = 1.0
) -> AsyncGenerator[Operation, None]:
    """Each new state of *operation* until it has ended, including the last one.

    Follows events, and also asks every *every* seconds, in case an event was lost.
    """
    latest = operation
    news = asyncio.Event()

    def changed(change: Change) -> None:
        nonlocal latest
        if change.operation is not None and change.operation.id == operation.id:
            latest = change.operation
            news.set()

    unsubscribe = fleet.subscribe(changed)
    try:
        yield latest
        while latest.state == "running":
            with contextlib.suppress(asyncio.TimeoutError):
                async with asyncio.timeout(every):
                    await news.wait()
            if not news.is_set():
                latest = await fleet.operations.get(operation.id)
            news.clear()
            yield latest
    finally:
        unsubscribe()


async def wait_for_end(
    fleet: FleetAPI, operation: Operation, show: Callable[[Operation], None] | None = None
) -> Operation:
    """Waits until *operation* has ended and returns it; calls *show* with each new state."""
    last = operation
    async with contextlib.aclosing(follow(fleet, operation)) as states:
        async for last in states:
            if show is not None:
                show(last)
    return last

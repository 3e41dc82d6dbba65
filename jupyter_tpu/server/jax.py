"""REST for jaxkit: a worker process answers each request, and its answer is passed on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import web
from tornado.iostream import StreamClosedError

from ..errors import Reason, TPUError
from ..links import core_thread
from .handlers import Handler
from .routes import JAX_ROUTES, ROOT

if TYPE_CHECKING:
    from ..jaxkit.rest.models import Answer
    from ..jaxkit.rest.pool import JaxWorker


#: Bytes of answers that clients have not read yet.
MAX_UNREAD = 256 << 20


class JaxService:
    """Access to the worker processes from the server's loop. The first request starts them."""

    def __init__(self) -> None:
        self._worker: JaxWorker | None = None
        self._closed = False
        self._unread = 0

    @contextlib.contextmanager
    def delivering(self, size: int) -> Iterator[None]:
        """Counts an answer of *size* bytes until it is sent. Raises UNAVAILABLE above the limit."""
        if self._unread + size > MAX_UNREAD:
            raise TPUError(
                f"Clients have not read {self._unread:,} bytes of answers yet.",
                Reason.UNAVAILABLE,
                "Read them first, and request less at a time.",
            )
        self._unread += size
        try:
            yield
        finally:
            self._unread -= size

    async def request(self, name: str, body: bytes, client: str) -> Answer:
        """The answer of :meth:`JaxWorker.request`. Raises what it raises."""
        return await core_thread().call(self._request(name, body, client))

    async def close(self) -> None:
        """Ends the processes. Waiting and running requests fail."""
        self._closed = True
        await core_thread().call(self._close())

    # ---- on the core thread ----

    async def _request(self, name: str, body: bytes, client: str) -> Answer:
        if self._closed:
            raise TPUError("The server is stopping.", Reason.INTERRUPTED)
        if self._worker is None:
            if find_spec("jax") is None:
                raise TPUError(
                    "JAX is not installed in the Jupyter server's environment.",
                    Reason.ENVIRONMENT,
                    "Install it with: pip install 'jupyter-tpu[jax]'.",
                )
            from ..jaxkit.rest.pool import JaxWorker

            self._worker = JaxWorker()
        return await self._worker.request(name, body, client=client)

    async def _close(self) -> None:
        if self._worker is not None:
            await self._worker.close()


class JaxHandler(Handler):
    """One request to jaxkit. It is cancelled when the client disconnects."""

    def initialize(self, name: str, service: JaxService) -> None:
        self._name = name
        self._service = service
        self._work: asyncio.Task[Answer] | None = None
        self._gone = False

    @web.authenticated
    @authorized
    async def post(self) -> None:
        request = self._service.request(self._name, self.request.body, self._client())
        self._work = asyncio.ensure_future(request)
        try:
            answer = await self._work
            with self._service.delivering(len(answer.body)):
                await self._deliver(answer)
        except TPUError as error:
            self.write_problem(error)
        except asyncio.CancelledError:
            if not self._gone:  # else there is no client to answer
                raise

    async def _deliver(self, answer: Answer) -> None:
        """Returns when the client has read it or has disconnected."""
        for name, value in answer.headers.items():
            self.set_header(name, value)
        self.set_header("Content-Type", answer.content_type)
        self.set_header("Content-Length", str(len(answer.body)))
        with contextlib.suppress(StreamClosedError):
            await self.flush()  # the head first: tornado would copy a body that is sent with it
            await self.finish(answer.body, set_content_type=answer.content_type)

    def on_connection_close(self) -> None:
        super().on_connection_close()
        self._gone = True
        if self._work is not None:
            self._work.cancel()

    def _client(self) -> str:
        """The client, for fair scheduling: the user or the token.

        Jupyter creates a new user for each request that has a token and no cookie.
        """
        token = self.identity_provider.get_token(self) if self.token_authenticated else None
        return f"token {hash(token)}" if token else str(self.current_user.username)


def jax_handlers(service: JaxService) -> list[tuple[str, type[APIHandler], dict[str, Any]]]:
    """For the web application. Jupyter adds the base URL."""
    return [
        (f"/{ROOT}/{route.path}", JaxHandler, {"name": route.call, "service": service})
        for route in JAX_ROUTES
    ]

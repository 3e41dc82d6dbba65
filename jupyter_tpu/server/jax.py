"""The REST face of jaxkit: each request goes to a worker process, its answer out as it is."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from tornado import web

from ..errors import Reason, TPUError
from ..links import core_thread
from .handlers import Handler
from .routes import JAX_ROUTES, ROOT

if TYPE_CHECKING:
    from ..jaxkit.models import Answer
    from ..jaxkit.pool import JaxWorker


class JaxGate:
    """The way from the server's loop to the worker processes; none runs before the first request.

    The core thread's loop can start processes everywhere; Jupyter's own on Windows can not.
    """

    def __init__(self) -> None:
        self._worker: JaxWorker | None = None
        self._closed = False

    async def request(self, name: str, body: bytes, client: str) -> Answer:
        """What :meth:`JaxWorker.request` answers; raises what it raises."""
        return await core_thread().call(self._request(name, body, client))

    async def close(self) -> None:
        """Ends the processes; requests that wait or run fail."""
        self._closed = True
        await core_thread().call(self._close())

    # ---- on the core thread ----

    async def _request(self, name: str, body: bytes, client: str) -> Answer:
        if self._closed:
            raise TPUError("The server is stopping.", Reason.INTERRUPTED)
        if self._worker is None:
            if find_spec("jax") is None:
                raise TPUError(
                    "JAX is not installed beside the Jupyter server.",
                    Reason.ENVIRONMENT,
                    "Install it there: pip install 'jupyter-tpu[jax]'.",
                )
            from ..jaxkit.pool import JaxWorker

            self._worker = JaxWorker()
        return await self._worker.request(name, body, client=client)

    async def _close(self) -> None:
        if self._worker is not None:
            await self._worker.close()


class JaxHandler(Handler):
    """One request of jaxkit; given up when the caller goes away."""

    def initialize(self, name: str, gate: JaxGate) -> None:
        self._name = name
        self._gate = gate
        self._work: asyncio.Task[Answer] | None = None
        self._gone = False

    @web.authenticated
    @authorized
    async def post(self) -> None:
        request = self._gate.request(self._name, self.request.body, self._client())
        self._work = asyncio.ensure_future(request)
        try:
            answer = await self._work
        except TPUError as error:
            self.write_problem(error)
            return
        except asyncio.CancelledError:
            if self._gone:
                return  # nobody is left to be answered
            raise
        for name, value in answer.headers.items():
            self.set_header(name, value)
        self.finish(answer.body, set_content_type=answer.content_type)

    def on_connection_close(self) -> None:
        super().on_connection_close()
        self._gone = True
        if self._work is not None:
            self._work.cancel()

    def _client(self) -> str:
        """Who asks, for taking turns: the user, or the token.

        Jupyter invents a user for each request that brings its token and no cookie.
        """
        token = self.identity_provider.get_token(self) if self.token_authenticated else None
        return f"token {hash(token)}" if token else str(self.current_user.username)


def jax_handlers(gate: JaxGate) -> list[tuple[str, type[APIHandler], dict[str, Any]]]:
    """For the web application; the base URL is put in front by Jupyter."""
    return [
        (f"/{ROOT}/{route.path}", JaxHandler, {"name": route.call, "gate": gate})
        for route in JAX_ROUTES
    ]

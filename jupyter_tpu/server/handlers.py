"""Translates between HTTP and the fleet: parse, call, answer. Nothing is decided here."""

from __future__ import annotations

import asyncio
import http
import math
from collections.abc import Coroutine
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import unquote

import msgspec
from jupyter_server.auth import IdentityProvider, User
from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import ensure_async
from tornado import web

from ..agent_token import AgentTokenFile
from ..errors import Reason, TPUError
from ..fleet.models import (
    AGENT,
    CarryOutPlan,
    PlanTPU,
    Problem,
    StartJob,
    StartRun,
)
from ..fleet.models.core import parse_query, parse_request, validated
from ..language import accepted
from .fleet_handle import FleetHandle
from .languages import encoded, encoded_aside, load
from .openapi import document
from .routes import ROOT, Route, paths
from .status import STATUS

#: The reasons for Jupyter's own error statuses.
_REASONS = {
    401: Reason.PERMISSION,
    403: Reason.PERMISSION,
    404: Reason.NOT_FOUND,
    405: Reason.INVALID,
    400: Reason.INVALID,
    413: Reason.INVALID,
}


class Handler(APIHandler):
    """The base of all handlers: the resource for authorization, and how errors are written."""

    auth_resource = "jupyter_tpu"

    async def prepare(self) -> None:  # type: ignore[override]
        await super().prepare()
        await load(self.language)

    @cached_property
    def language(self) -> str:
        """The catalogue of the language that the client asks for; "" for English."""
        return accepted(self.request.headers.get("Accept-Language", ""))

    def write_problem(self, error: TPUError, status: int | None = None) -> None:
        """Ends the request with *status*, or the error's status, and a Problem."""
        self.set_status(status or STATUS.get(error.reason, 500))
        self._finish(Problem.of(error))

    def _finish(self, problem: Problem) -> None:
        if problem.retry_after:
            self.set_header("Retry-After", math.ceil(problem.retry_after))
        self.finish(encoded(problem, self.language))

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Every error is a Problem. Tornado writes the traceback to the server's log."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(error, TPUError):
            problem = Problem.of(error)
        elif isinstance(error, web.HTTPError):
            phrase = http.HTTPStatus(status_code).phrase
            problem = Problem(
                message=error.log_message or f"{phrase}.",
                reason=_REASONS.get(status_code, Reason.INTERNAL),
            )
        else:
            problem = Problem(
                message="Internal error in jupyter-tpu.",
                reason=Reason.INTERNAL,
                hint="See the server's log for details.",
            )
        self._finish(problem)


#: Requests whose effect depends on who asks. What they say of it themselves is not believed.
_SAY_WHO = (PlanTPU, CarryOutPlan, StartRun, StartJob)


class AgentIdentity(IdentityProvider):
    """The user of requests with the agents' token: one of its own, whoever else is logged in."""

    def get_user(self, handler: Any) -> User:
        handler._token_authenticated = True
        return User(username=AGENT, name="Coding agent", display_name="Coding agent")


class RouteHandler(Handler):
    """All methods of one path in the route table. The agents' token is for these only."""

    def initialize(
        self, routes: dict[str, Route], fleet: FleetHandle, agent_token: AgentTokenFile
    ) -> None:
        self._routes = routes
        self._fleet = fleet
        self._agent_token = agent_token

    @cached_property
    def is_agent(self) -> bool:
        """Whether the request has the agents' token, in its header."""
        given = IdentityProvider.auth_header_pat.match(
            self.request.headers.get("Authorization", "")
        )
        return given is not None and self._agent_token.has(given[2])

    @property
    def identity_provider(self) -> IdentityProvider:
        if self.is_agent:
            return AgentIdentity()
        return super().identity_provider

    @web.authenticated
    @authorized
    async def get(self, *parts: str) -> None:
        await self._answer(parts)

    @web.authenticated
    @authorized
    async def post(self, *parts: str) -> None:
        await self._answer(parts)

    @web.authenticated
    @authorized
    async def delete(self, *parts: str) -> None:
        await self._answer(parts)

    async def _answer(self, parts: tuple[str, ...]) -> None:
        route = self._routes.get(self.request.method or "")
        if route is None:
            self.set_header("Allow", ", ".join(self._routes))
            raise web.HTTPError(405)
        if route.permission is not None:
            await self._require(*route.permission)
        arguments: list[Any] = [unquote(part) for part in parts]
        try:
            arguments += self._request(route)
            if agent := self.is_agent:
                await self._fleet.call("agents.require", route.call, tuple(arguments))
            for argument in arguments:
                if isinstance(argument, _SAY_WHO):
                    argument.who = AGENT if agent else ""
            if route.is_list:
                self.finish(await self._fleet.encoded_list(self.language, route.call, *arguments))
                return
            answer = await self._fleet.call(route.call, *arguments)
        except TPUError as error:
            self.write_problem(error)
            return
        if route.answer is None:
            self.set_status(204)
            self.finish()
            return
        self.set_status(route.status)
        self.finish(await encoded_aside(answer, self.language))

    async def _require(self, action: str, resource: str) -> None:
        allowed: Any = self.authorizer.is_authorized(self, self.current_user, action, resource)
        if not await ensure_async(allowed):
            raise web.HTTPError(403, f"This needs permission to {action} {resource}, too.")

    def _request(self, route: Route) -> list[Any]:
        """The body, or the query if there is no body."""
        query = {name: self.get_query_argument(name, None) for name in route.query}
        if route.query_model is not None:
            return [parse_query(route.query_model, query)]
        if route.body is None:
            return list(query.values())
        body = parse_request(route.body, self.request.body)
        for name, value in query.items():
            if value is not None:
                body = validated(msgspec.structs.replace(body, **{name: boolean(value)}))
        return [body]


class DocumentHandler(Handler):
    """The OpenAPI document."""

    @web.authenticated
    @authorized
    async def get(self) -> None:
        self.finish(msgspec.json.encode(document(self.base_url)))


def boolean(value: str) -> Any:
    """What a query says; the text itself if that is neither true nor false."""
    return {"true": True, "1": True, "false": False, "0": False}.get(value.lower(), value)


def handlers(fleet: FleetHandle) -> list[tuple[str, type[APIHandler], dict[str, Any]]]:
    """For the web application. Jupyter adds the base URL."""
    url_handlers: list[tuple[str, type[APIHandler], dict[str, Any]]] = [
        (f"/{ROOT}/openapi.json", DocumentHandler, {})
    ]
    agent_token = AgentTokenFile()
    for path, routes in paths().items():
        pattern = "/".join("([^/]+)" if part.startswith("{") else part for part in path.split("/"))
        settings = {"routes": routes, "fleet": fleet, "agent_token": agent_token}
        url_handlers.append((f"/{ROOT}/{pattern}", RouteHandler, settings))
    return url_handlers


T = TypeVar("T")


class StreamingHandler(Handler):
    """A handler whose request or answer is passed on while it arrives."""

    async def prepare(self) -> None:  # type: ignore[override]
        self._loop = asyncio.get_running_loop()
        await super().prepare()

    async def on_server_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the server's loop; called on the core thread."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    async def write_chunk(self, chunk: bytes) -> None:
        """Returns when the browser has room for more."""
        self.write(chunk)
        await self.flush()

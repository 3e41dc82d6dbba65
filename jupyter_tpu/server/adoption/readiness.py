"""503 in front of the lists of kernels and sessions while they would be incomplete.

A client that saw a list without its kernel would take the kernel for dead, and so would one that
got 403, 404 or 500; a 503 is a server that is not there yet, or no more.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.utils import url_path_join
from tornado import web
from tornado.routing import Matcher, Rule


class _UnavailableHandler(APIHandler):
    @web.authenticated
    async def get(self, *_: str) -> None:
        raise web.HTTPError(503, "The server is starting or stopping")

    post = put = patch = delete = head = get


class _ClosedMatcher(Matcher):
    def __init__(self, closed: Callable[[], bool], base_url: str) -> None:
        self._closed = closed
        path = url_path_join(base_url, "/api/")
        self._path = re.compile(re.escape(path) + r"(kernels|sessions)(/|$)")

    def match(self, request: Any) -> dict[str, Any] | None:
        return {} if self._closed() and self._path.match(request.path) else None


def answer_503_while(application: Any, closed: Callable[[], bool]) -> None:
    """Has *application* answer 503 on these routes for as long as *closed* says so."""
    matcher = _ClosedMatcher(closed, application.settings["base_url"])
    application.default_router.rules.insert(0, Rule(matcher, _UnavailableHandler))

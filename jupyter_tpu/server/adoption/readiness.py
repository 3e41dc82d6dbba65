"""Answers 503 for the lists of kernels and sessions while they are incomplete.

JupyterLab takes a kernel for dead if it is not in the list, or if the answer is 403, 404 or 500.
After a 503 it tries again.
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
        raise web.HTTPError(503, "The server is starting or stopping.")

    post = put = patch = delete = head = get


class _ClosedMatcher(Matcher):
    def __init__(self, closed: Callable[[], bool], base_url: str) -> None:
        self._closed = closed
        path = url_path_join(base_url, "/api/")
        self._path = re.compile(re.escape(path) + r"(kernels|sessions)(/|$)")

    def match(self, request: Any) -> dict[str, Any] | None:
        return {} if self._closed() and self._path.match(request.path) else None


def answer_503_while(application: Any, closed: Callable[[], bool]) -> None:
    """Makes *application* answer 503 on these routes while *closed* returns True."""
    matcher = _ClosedMatcher(closed, application.settings["base_url"])
    application.default_router.rules.insert(0, Rule(matcher, _UnavailableHandler))

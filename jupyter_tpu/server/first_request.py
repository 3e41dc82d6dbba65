"""Our handlers, and the models of what they are asked and answer, are imported with the first
request to them: they would be most of what the extension adds to a server's start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jupyter_server.utils import url_path_join
from tornado import httputil
from tornado.routing import PathMatches, Router, Rule

#: All our paths begin with it, below the base URL.
PREFIX = "/jupyter-tpu/"


def add_at_first_request(application: Any, load: Callable[[], list[Any]]) -> None:
    """Adds handlers to *application* when a request is for one of them. *load* gives them: a path
    below the base URL, a class and its arguments each.
    """
    base_url = application.settings["base_url"]
    rules = application.default_router.rules

    def add() -> None:
        rules.remove(rule)
        application.add_handlers(
            ".*$", [(url_path_join(base_url, path), *more) for path, *more in load()]
        )

    rule = Rule(PathMatches(url_path_join(base_url, PREFIX) + ".*"), _First(application, add))
    rules.insert(-1, rule)  # as `add_handlers` does: the last one matches everything


class _First(Router):
    def __init__(self, application: Any, add: Callable[[], None]) -> None:
        self._application = application
        self._add = add

    def find_handler(
        self, request: httputil.HTTPServerRequest, **_: Any
    ) -> httputil.HTTPMessageDelegate | None:
        self._add()
        router: Router = self._application.default_router
        return router.find_handler(request)

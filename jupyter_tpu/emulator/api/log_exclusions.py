"""Cloud Logging over REST, as far as it is asked: which entries a project does not store."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from ..engine import Engine
from ..model import api_errors
from .rest import json_body

_ROOT = "/logging/v2/projects/{project:[^/:]+}/exclusions"
_FIELDS = {"name", "description", "filter", "disabled"}


def add_routes(app: web.Application, engine: Engine) -> None:
    """``projects/P/exclusions`` and ``projects/P/exclusions/E``: those of its sink _Default."""

    def of(request: web.Request) -> dict[str, dict[str, Any]]:
        return engine.model.log_exclusions.setdefault(request.match_info["project"], {})

    def known(request: web.Request) -> dict[str, Any]:
        name = request.match_info["exclusion"]
        try:
            return of(request)[name]
        except KeyError:
            project = request.match_info["project"]
            raise api_errors.not_found(f"projects/{project}/exclusions/{name}") from None

    async def body_of(request: web.Request) -> dict[str, Any]:
        body = await json_body(request)
        if not isinstance(body, dict) or (unknown := set(body) - _FIELDS):
            raise api_errors.invalid_field(f"Invalid exclusion: {unknown or 'not an object'}.")
        return body

    async def list_all(request: web.Request) -> web.Response:
        return web.json_response({"exclusions": [*of(request).values()]})

    async def get(request: web.Request) -> web.Response:
        return web.json_response(known(request))

    async def create(request: web.Request) -> web.Response:
        body = await body_of(request)
        for field in ("name", "filter"):
            if not body.get(field):
                raise api_errors.required_field(f"exclusion.{field}")
        if body["name"] in of(request):
            raise api_errors.exists(f"{request.path}/{body['name']}")
        of(request)[body["name"]] = body
        engine.save()
        return web.json_response(body)

    async def update(request: web.Request) -> web.Response:
        body, exclusion = await body_of(request), known(request)
        for field in filter(None, request.query.get("updateMask", "").split(",")):
            exclusion[field] = body.get(field)
        engine.save()
        return web.json_response(exclusion)

    async def delete(request: web.Request) -> web.Response:
        del of(request)[known(request)["name"]]
        engine.save()
        return web.json_response({})

    app.router.add_get(_ROOT, list_all)
    app.router.add_post(_ROOT, create)
    app.router.add_get(f"{_ROOT}/{{exclusion}}", get)
    app.router.add_patch(f"{_ROOT}/{{exclusion}}", update)
    app.router.add_delete(f"{_ROOT}/{{exclusion}}", delete)

"""The OpenAPI 3.1 document, made from the route table and the models that validate."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from ..fleet.models import Problem
from ..version import __version__
from .routes import ALL_ROUTES, ROOT, Route

_PARTS = {
    "tpu": "Its name, or zone~name if two zones have a TPU of this name",
    "environment": "The environment's name",
    "kernel": "The kernel's id",
    "operation": "The operation's id",
    "app": "The app's id",
    "session": "The session's id",
    "zone": "A zone, such as us-west4-a; - for none",
    "server": "The id of a server of a model",
    "tunnel": "The tunnel's id",
    "run": "The run's id",
    "job": "The job's id",
    "queued": "The queued resource's name, or zone~name",
    "hunt": "The hunt's id, or the name of its TPU",
    "host": "The host's number, from 0",
    "path": "A path from the root folder, without its slash; it may have slashes",
    "grant": "The grant's name",
    "budget": "Whose it is: agent, or a person",
    "plan": "The plan's id",
    "token": "the name of its variable, such as HF_TOKEN",
}

_FILE: dict[str, Any] = {"application/octet-stream": {}}


@cache
def document(base_url: str = "/") -> dict[str, Any]:
    types = [
        kind
        for route in ALL_ROUTES
        for kind in (route.answer, route.body, route.result)
        if kind is not None
    ]
    unique = list({str(t): t for t in [*types, Problem]}.values())
    schemas, components = msgspec.json.schema_components(
        unique, ref_template="#/components/schemas/{name}"
    )
    by_type = dict(zip(map(str, unique), schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for route in ALL_ROUTES:
        paths.setdefault(f"/{route.path}", {})[route.method.lower()] = _operation(route, by_type)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "jupyter-tpu",
            "version": __version__,
            "description": "Google Cloud TPUs as part of the notebook. Requests that take longer "
            "than a second answer 202 and an operation. Changes are published as Jupyter events. "
            "Requests under jax/ are computed in a worker process with a time limit; jax/compile "
            "is an operation.",
        },
        "servers": [{"url": f"{base_url}{ROOT}"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "`token TOKEN` with the Jupyter server's token",
                }
            },
        },
    }


def _operation(route: Route, by_type: dict[str, Any]) -> dict[str, Any]:
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _PARTS[name],
            "schema": {"type": "string"},
        }
        for name in re.findall(r"{(\w+)}", route.path)
    ] + [
        {"name": name, "in": "query", "description": about, "schema": {"type": "string"}}
        for name, about in route.query.items()
    ]
    success: dict[str, Any] = {"description": route.about}
    if route.answer is not None:
        answer = by_type[str(route.answer)]
        if route.result is not None:
            result = {"anyOf": [by_type[str(route.result)], {"type": "null"}]}
            answer = {"allOf": [answer, {"properties": {"result": result}}]}
        success["content"] = _json(answer) | {
            kind: {"schema": {"description": when}} for kind, when in route.media.items()
        }
    if route.file == "answer":
        success["content"] = _FILE
    if route.text:
        success["content"] = {route.text: {"schema": {"type": "string"}}}
    operation: dict[str, Any] = {
        "operationId": re.sub(r"\W", "_", route.call),
        "summary": route.about,
        "responses": {
            str(route.status if "content" in success else 204): success,
            "default": {"description": "What went wrong", "content": _json(by_type[str(Problem)])},
        },
    }
    if route.more:
        operation["description"] = route.more
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {"content": _json(by_type[str(route.body)])}
    elif route.file == "body":
        operation["requestBody"] = {"content": _FILE, "required": True}
    return operation


def _json(schema: Any) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}

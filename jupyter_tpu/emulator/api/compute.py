"""The few Compute Engine calls that `gcloud … ssh` needs: the project and its common metadata."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec
from aiohttp import web
from msgspec import Struct

from ..engine import Engine
from ..model import api_errors
from .rest import json_body


class Item(Struct):
    key: str
    value: str = ""


class Metadata(Struct):
    """compute.Metadata, as `setCommonInstanceMetadata` sends it."""

    items: list[Item] = []
    fingerprint: str = ""


def add_routes(app: web.Application, engine: Engine) -> None:
    """``/compute/v1/projects/P`` and its ``setCommonInstanceMetadata``."""

    async def get_project(request: web.Request) -> web.Response:
        project = request.match_info["project"]
        items = engine.model.project_metadata.get(project, {})
        return web.json_response(
            {
                "kind": "compute#project",
                "id": str(int(hashlib.sha256(project.encode()).hexdigest()[:15], 16)),
                "name": project,
                "commonInstanceMetadata": {
                    "kind": "compute#metadata",
                    "fingerprint": _fingerprint(items),
                    "items": [{"key": key, "value": value} for key, value in items.items()],
                },
            }
        )

    async def set_metadata(request: web.Request) -> web.Response:
        project = request.match_info["project"]
        try:
            metadata = msgspec.convert(await json_body(request) or {}, Metadata)
        except msgspec.ValidationError as error:
            raise api_errors.invalid_field(f"Invalid value for field 'metadata': {error}") from None
        now = engine.model.project_metadata.get(project, {})
        if metadata.fingerprint and metadata.fingerprint != _fingerprint(now):
            return web.json_response(
                {"error": {"code": 412, "message": "Supplied fingerprint does not match."}},
                status=412,
            )
        items = {item.key: item.value for item in metadata.items}
        await engine.set_project_metadata(project, items)
        return web.json_response(_done(request, project))

    async def get_operation(request: web.Request) -> web.Response:
        # Changes are made before the answer, so all operations are done.
        return web.json_response(_done(request, request.match_info["project"]))

    root = "/compute/{version:v1|beta|alpha}/projects/{project}"
    app.router.add_get(root, get_project)
    app.router.add_post(f"{root}/setCommonInstanceMetadata", set_metadata)
    app.router.add_get(f"{root}/global/operations/{{operation}}", get_operation)
    app.router.add_post(f"{root}/global/operations/{{operation}}/wait", get_operation)


def _done(request: web.Request, project: str) -> dict[str, Any]:
    base = f"{request.scheme}://{request.host}/compute/v1/projects/{project}"
    return {
        "kind": "compute#operation",
        "name": "operation-metadata",
        "operationType": "compute.projects.setCommonInstanceMetadata",
        "status": "DONE",
        "progress": 100,
        "targetLink": base,
        "selfLink": f"{base}/global/operations/operation-metadata",
    }


def _fingerprint(items: dict[str, str]) -> str:
    """Base64, since the field is of the type bytes: clients decode it and encode it again."""
    digest = hashlib.sha256(msgspec.json.encode(items)).digest()[:8]
    return base64.urlsafe_b64encode(digest).decode()

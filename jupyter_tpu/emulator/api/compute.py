"""Compute Engine's project: its description, and the metadata that all its hosts share."""

from __future__ import annotations

import hashlib

import msgspec
from aiohttp import web
from msgspec import Struct

from ..engine import Engine
from ..model import api_errors
from ..model.instances import fingerprint
from .compute_operations import ROOT, done
from .rest import json_body
from .services import project_number


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
                "defaultServiceAccount": f"{project_number(project)}-compute"
                "@developer.gserviceaccount.com",
                "commonInstanceMetadata": {
                    "kind": "compute#metadata",
                    "fingerprint": fingerprint(items),
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
        if metadata.fingerprint and metadata.fingerprint != fingerprint(now):
            raise api_errors.wrong_fingerprint("fingerprint")
        items = {item.key: item.value for item in metadata.items}
        await engine.set_project_metadata(project, items)
        kind = "compute.projects.setCommonInstanceMetadata"
        return done(request, kind, request.path.removesuffix("/setCommonInstanceMetadata"))

    app.router.add_get(ROOT, get_project)
    app.router.add_post(f"{ROOT}/setCommonInstanceMetadata", set_metadata)

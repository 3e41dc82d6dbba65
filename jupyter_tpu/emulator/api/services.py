"""Resource Manager's project and Service Usage's services, as far as gcloud asks for them."""

from __future__ import annotations

import hashlib
from typing import Any

from aiohttp import web

from ..engine import Engine


def project_number(project: str) -> int:
    return int(hashlib.sha256(project.encode()).hexdigest()[:10], 16)


#: The APIs that a project here has, all enabled but for a fault "api-disabled" (Cloud TPU's).
SERVICES = {
    "cloudresourcemanager.googleapis.com": "Cloud Resource Manager API",
    "compute.googleapis.com": "Compute Engine API",
    "iap.googleapis.com": "Cloud Identity-Aware Proxy API",
    "logging.googleapis.com": "Cloud Logging API",
    "oslogin.googleapis.com": "Cloud OS Login API",
    "serviceusage.googleapis.com": "Service Usage API",
    "storage.googleapis.com": "Cloud Storage JSON API",
    "tpu.googleapis.com": "Cloud TPU API",
}
TPU = "tpu.googleapis.com"
_PROJECT = "/projects/{project:[^/:]+}"


def add_routes(app: web.Application, engine: Engine) -> None:
    """``/cloudresourcemanager/v1/projects/P`` and ``/serviceusage/v1/projects/P/services``."""
    faults = engine.model.faults

    async def get_project(request: web.Request) -> web.Response:
        project = request.match_info["project"]
        number = str(project_number(project))
        body = {"projectId": project, "projectNumber": number, "name": project}
        return web.json_response({**body, "lifecycleState": "ACTIVE"})

    def service(request: web.Request, name: str) -> dict[str, Any]:
        enabled = name in SERVICES and not (name == TPU and faults.has("api-disabled"))
        parent = f"projects/{project_number(request.match_info['project'])}"
        return {
            "name": f"{parent}/services/{name}",
            "config": {"name": name, "title": SERVICES.get(name, name)},
            "state": "ENABLED" if enabled else "DISABLED",
            "parent": parent,
        }

    async def list_services(request: web.Request) -> web.Response:
        services = [service(request, name) for name in SERVICES]
        state = request.query.get("filter", "").partition("state:")[2]
        shown = [entry for entry in services if state in ("", entry["state"])]
        return web.json_response({"services": shown})

    async def get_service(request: web.Request) -> web.Response:
        return web.json_response(service(request, request.match_info["service"]))

    async def enable(request: web.Request) -> web.Response:
        name = request.match_info["service"]
        if name == TPU:
            for fault in faults.list():
                if fault.kind == "api-disabled":
                    faults.remove(fault.id)
        operation = {"name": "operations/noop.DONE_OPERATION", "done": True}
        return web.json_response({**operation, "response": {"service": service(request, name)}})

    app.router.add_get(f"/cloudresourcemanager/v1{_PROJECT}", get_project)
    root = f"/serviceusage/v1{_PROJECT}/services"
    app.router.add_get(root, list_services)
    app.router.add_get(f"{root}/{{service:[^/:]+}}", get_service)
    app.router.add_post(f"{root}/{{service:[^/:]+}}:enable", enable)

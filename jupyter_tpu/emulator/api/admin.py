"""The emulator's own calls, under ``/emulator/v1/``: faults to inject, hosts to inspect."""

from __future__ import annotations

import msgspec
from aiohttp import web

from ..engine import Engine
from ..instances import InstanceEngine
from ..model import api_errors
from ..model.faults import IMMEDIATE, Fault
from ..model.instance_records import InstanceRecord
from .calls import Api
from .compute_calls import COMPUTE_METHODS
from .iap import IapTunnels
from .rest import json_body
from .storage import STORAGE_METHODS


def add_routes(
    app: web.Application, engine: Engine, instances: InstanceEngine, api: Api, iap: IapTunnels
) -> None:
    """GET/POST/DELETE ``faults`` (see model/faults.py), DELETE ``faults/{id}``, GET ``hosts``, GET
    ``bill`` (see model/bill.py).

    And POST ``iap``: opens the tunnels of Identity-Aware Proxy, and says where they are.
    """

    async def add_fault(request: web.Request) -> web.Response:
        try:
            fault = msgspec.convert(await json_body(request), Fault)
        except msgspec.ValidationError as error:
            raise api_errors.invalid_field(f"not a fault: {error}") from None
        known = fault.method in COMPUTE_METHODS | STORAGE_METHODS or (
            fault.method and api.has_call(fault.method)
        )
        if fault.method is not None and not known:
            raise api_errors.invalid_field(f"there is no method {fault.method}")
        if fault.kind in IMMEDIATE:
            if not fault.node:
                raise api_errors.invalid_field(f"the fault {fault.kind} needs a node")
            node = engine.model.find_node(fault.node)
            if isinstance(node, InstanceRecord):
                instances.inject_fault(fault, node)
            elif fault.kind in ("vanish", "host-error"):
                raise api_errors.invalid_field(f"the fault {fault.kind} needs an instance")
            else:
                engine.inject_fault(fault, node)
        else:
            engine.model.add_fault(fault)
        return web.json_response(msgspec.to_builtins(fault))

    async def list_faults(request: web.Request) -> web.Response:
        faults = engine.model.faults.list()
        return web.json_response({"faults": msgspec.to_builtins(faults)})

    async def clear_faults(request: web.Request) -> web.Response:
        engine.model.faults.clear()
        engine.wake()
        return web.json_response({})

    async def remove_fault(request: web.Request) -> web.Response:
        name = request.match_info["id"]
        if not engine.model.faults.remove(name):
            raise api_errors.not_found(f"faults/{name}")
        engine.wake()
        return web.json_response({})

    async def list_hosts(request: web.Request) -> web.Response:
        return web.json_response({"hosts": await engine.describe_hosts()})

    async def show_bill(request: web.Request) -> web.Response:
        return web.json_response({"lines": engine.bill.lines()})

    async def open_iap(request: web.Request) -> web.Response:
        return web.json_response(await iap.open())

    root = "/emulator/v1"
    app.router.add_post(f"{root}/iap", open_iap)
    app.router.add_post(f"{root}/faults", add_fault)
    app.router.add_get(f"{root}/faults", list_faults)
    app.router.add_delete(f"{root}/faults", clear_faults)
    app.router.add_delete(f"{root}/faults/{{id}}", remove_fault)
    app.router.add_get(f"{root}/hosts", list_hosts)
    app.router.add_get(f"{root}/bill", show_bill)

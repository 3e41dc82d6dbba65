"""A client of the REST interface with a token of its own: an agent's, or a person's."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tornado.httpclient import HTTPClientError
from waiting import eventually

from jupyter_tpu.fleet.routes import ROOT

ZONE = "us-west4-a"
TYPE = "v5litepod-1"  # $1.20 an hour


class Client:
    """Requests with a token of its own."""

    def __init__(self, fetch: Callable[..., Any], token: str | None) -> None:
        self._fetch = fetch
        self._headers = {"headers": {"Authorization": f"token {token}"}} if token else {}

    async def __call__(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        options: dict[str, Any] = {**self._headers, "params": {}}
        if method == "POST":
            options.update(body=json.dumps(body or {}), allow_nonstandard_methods=True)
        try:
            response = await self._fetch(*f"{ROOT}/{path}".split("/"), method=method, **options)
        except HTTPClientError as error:
            return error.code, json.loads(error.response.body if error.response else "null")
        return response.code, json.loads(response.body or "null")

    async def done(self, operation: str) -> dict[str, Any]:
        async def ended() -> Any:
            _, now = await self("GET", f"operations/{operation}")
            return now if now["state"] != "running" else None

        ended_operation: dict[str, Any] = await eventually(ended, 120)
        return ended_operation

    async def plan(self, name: str, **fields: Any) -> tuple[int, Any]:
        tpu = {"name": name, "type": TYPE, "zone": ZONE, **fields.pop("tpu", {})}
        return await self("POST", "plans", {"tpu": tpu, **fields})


def tpu_request(name: str) -> dict[str, str]:
    return {"name": name, "type": TYPE, "zone": ZONE}


def delete_nodes(emulator: Any, names: list[str]) -> None:
    nodes = f"/v2/projects/emulated/locations/{ZONE}/nodes"
    for node in emulator.request("GET", nodes).get("nodes", []):
        if node["name"].rpartition("/")[2] in names and node["state"] != "DELETING":
            emulator.wait(emulator.request("DELETE", f"/v2/{node['name']}"))

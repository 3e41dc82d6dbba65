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

    async def __call__(
        self, method: str, path: str, body: Any = None, **options: Any
    ) -> tuple[int, Any]:
        """Status and decoded answer. *path*: below ours, or Jupyter Server's if it begins with a
        slash."""
        options = {**self._headers, "params": {}, "request_timeout": 60, **options}
        if body is not None or method in ("POST", "PUT", "PATCH"):
            text = body if isinstance(body, str) else json.dumps(body if body is not None else {})
            options.update(body=text, allow_nonstandard_methods=True)
        parts = (path[1:] if path.startswith("/") else f"{ROOT}/{path}").split("/")
        try:
            response = await self._fetch(*parts, method=method, **options)
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

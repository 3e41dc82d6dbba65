"""One call of Cloud Storage's API: who calls what, and what the parameters say."""

from __future__ import annotations

import base64
import json
from typing import Any

from aiohttp import web
from msgspec import Struct

from ...model.records import NodeRecord
from ...state_folder import PROJECT
from ...storage import errors
from ...storage.records import (
    BucketRecord,
    Conditions,
    ObjectRecord,
    invalid_parameter,
    number,
)
from ..host_identity import account_of
from ..rest import json_body
from . import resources
from .bodies import Line

_MOST_RESULTS = 1000


class Call(Struct, kw_only=True):
    """One call of the API."""

    request: web.Request
    name: str
    #: What the path has: the object, and the bucket and name of another.
    path: dict[str, str]
    #: The host that calls; None: the owner of the emulator.
    node: NodeRecord | None
    #: The address of the API by which the caller has come.
    base: str
    target: BucketRecord | None
    line: Line
    download: bool

    @property
    def query(self) -> Any:
        return self.request.query

    @property
    def bucket(self) -> BucketRecord:
        """That the path names."""
        assert self.target is not None
        return self.target

    @property
    def project(self) -> str:
        """Whose buckets are listed or made. Clients of an emulator may not say it."""
        asked: str = self.query.get("project", "").replace("<none>", "")
        if self.node is None:
            return asked or PROJECT
        if asked not in ("", self.node.project):
            raise errors.forbidden(account_of(self.node), f"storage.{self.name}")
        return self.node.project

    @property
    def generation(self) -> int | None:
        return number(self.query, "generation")

    @property
    def conditions(self) -> Conditions:
        return Conditions.of_query(self.query)

    async def body(self) -> dict[str, Any]:
        """The object that is sent as JSON; empty if nothing is."""
        body = await json_body(self.request)
        if not isinstance(body, (dict, type(None))):
            raise errors.invalid("Parse Error: the body is not an object.")
        return body or {}

    def answer(self, record: BucketRecord | ObjectRecord) -> web.Response:
        """The resource as the call's answer."""
        if isinstance(record, BucketRecord):
            return web.json_response(resources.bucket_resource(record, self.base))
        return web.json_response(resources.object_resource(record, self.base))

    def is_true(self, parameter: str) -> bool:
        return bool(self.query.get(parameter, "").lower() == "true")

    def page(self) -> tuple[int, tuple[str, int]]:
        """How many are asked for, and after which name."""
        limit = number(self.query, "maxResults")
        text = self.query.get("pageToken", "")
        if limit is not None and limit < 0:
            raise invalid_parameter("maxResults", str(limit))
        try:
            name, generation = json.loads(base64.urlsafe_b64decode(text)) if text else ("", 0)
            after = (str(name), int(generation))
        except (ValueError, TypeError):
            raise invalid_parameter("pageToken", text) from None
        return min(limit or _MOST_RESULTS, _MOST_RESULTS), after


def page_token(after: tuple[str, int]) -> str:
    return base64.urlsafe_b64encode(json.dumps(after).encode()).decode()

"""Reads and changes the VPC networks of a project, through Compute Engine's REST interface."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

from msgspec import Struct

from ...errors import Reason, TPUError
from ..google_apis import GoogleAPIs
from .firewall import FirewallRule, read_rules
from .operations import wait_until_done


class Subnetwork(Struct, frozen=True, kw_only=True):
    name: str
    region: str
    range: str  # of internal addresses, "10.128.0.0/20"
    google_access: bool  # whether hosts without external address reach Google's APIs


class Network(Struct, frozen=True, kw_only=True):
    name: str
    subnetworks: tuple[Subnetwork, ...]
    rules: tuple[FirewallRule, ...]


class Resource(Struct, frozen=True, kw_only=True):
    """A resource as it should be: of a collection such as "global/firewalls".

    exists: it has to be changed to *body*, not created.
    """

    collection: str
    name: str
    body: dict[str, Any]
    exists: bool = False


class Networks:
    """The networks of *project*. All methods raise what `GoogleAPIs` raises."""

    def __init__(self, apis: GoogleAPIs, project: str) -> None:
        self._apis = apis
        self._root = f"/compute/v1/projects/{project}"

    async def find(self, name: str) -> Network | None:
        """The network with its subnetworks and rules; None if it does not exist."""
        try:
            await self._call("GET", f"global/networks/{name}")
        except TPUError as error:
            # A project that does not exist is not found, either.
            if error.reason is Reason.NOT_FOUND and f"/networks/{name}" in error.message:
                return None
            raise
        subnetworks, rules = await asyncio.gather(self._subnetworks(name), self.rules(name))
        return Network(name=name, subnetworks=(*subnetworks,), rules=(*rules,))

    async def rules(self, network: str) -> list[FirewallRule]:
        """The firewall rules of *network* for what comes in."""
        rules = read_rules(await self._list("global/firewalls"))
        return [rule for rule in rules if rule.network == network]

    async def put(self, resource: Resource) -> None:
        """Creates or changes *resource*, and waits until that is done.

        Raises CONFLICT where someone else did so meanwhile. After TIMEOUT and UNAVAILABLE it is
        not known whether it was done.
        """
        path, method = resource.collection, "POST"
        if resource.exists:
            path, method = f"{path}/{resource.name}", "PATCH"
        # The same request, if it arrives twice, is one for Google.
        operation = await self._call(method, path, resource.body, requestId=str(uuid.uuid4()))
        await wait_until_done(operation, lambda path: self._call("GET", path))

    # ---- internals ------------------------------------------------------------------------------

    async def _subnetworks(self, network: str) -> list[Subnetwork]:
        return [
            Subnetwork(
                name=str(body["name"]),
                region=place.removeprefix("regions/"),
                range=str(body["ipCidrRange"]),
                google_access=bool(body.get("privateIpGoogleAccess")),
            )
            for answer in await self._pages("aggregated/subnetworks")
            for place, listing in answer.get("items", {}).items()
            for body in listing.get("subnetworks", ())
            if str(body.get("network", "")).endswith(f"/networks/{network}")
            # Others are for load balancers, or have no IPv4 addresses.
            and body.get("purpose", "PRIVATE") == "PRIVATE"
            and body.get("ipCidrRange")
        ]

    async def _list(self, path: str) -> list[dict[str, Any]]:
        return [item for answer in await self._pages(path) for item in answer.get("items", ())]

    async def _pages(self, path: str) -> list[dict[str, Any]]:
        answers = [await self._call("GET", path)]
        while token := answers[-1].get("nextPageToken"):
            answers.append(await self._call("GET", path, pageToken=str(token)))
        return answers

    async def _call(
        self, method: str, path: str, body: dict[str, Any] | None = None, **query: str
    ) -> dict[str, Any]:
        try:
            return await self._apis.call(method, "compute", f"{self._root}/{path}", body, **query)
        except TPUError as error:
            if "roles/tpu.admin" in error.hint:
                error.hint = (
                    "Ask the project's owner for the roles Compute Network Admin "
                    "(roles/compute.networkAdmin) and Compute Security Admin "
                    "(roles/compute.securityAdmin), or to do this for you."
                )
            raise

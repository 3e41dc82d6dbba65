"""Fleets as servers have them, one after or beside the other, and what there is at the cloud."""

from __future__ import annotations

import asyncio
import contextlib
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from emulator_error import EmulatorError
from waiting import eventually, until

from jupyter_tpu.cloud import Cloud, CloudTPU, Target
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.models import CreateTPU, Operation
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import Links

ZONE = "us-west4-a"
NODES = f"/v2/projects/emulated/locations/{ZONE}/nodes"
LIMIT = 120.0  # seconds


def others(*ways: Any) -> list[Any]:
    """Ways that are like one which is always tested."""
    ways = tuple(way if isinstance(way, tuple) else (way,) for way in ways)
    return [pytest.param(*way, marks=pytest.mark.long) for way in ways]


class Server:
    """A fleet as one server has it; others may open the same folder before or after it."""

    def __init__(self, cloud: Cloud, folder: Path) -> None:
        self._links = Links(cloud)
        self._folder = folder
        self.fleet: Fleet

    async def open(self) -> Server:
        specs = KernelSpecs(self._folder / "kernels")
        self.fleet = await Fleet.open(self._links, specs, self._folder / "fleet.sqlite")
        return self

    async def close(self) -> None:
        await self.fleet.close()
        await self._links.close()
        await self._links.cloud.close()

    async def end(self, operation: Operation) -> Operation:
        return await asyncio.wait_for(self.fleet.operations.wait(operation.id), LIMIT)

    async def create(self, name: str) -> Operation:
        return await self.fleet.create(CreateTPU(name=name, type="v5litepod-1", zone=ZONE))

    async def ended(self, id: str) -> Operation:
        """An operation that an earlier server began, when it has ended."""

        async def state() -> Operation | None:
            operation = await self.fleet.operations.get(id)
            return operation if operation.state != "running" else None

        return await eventually(state, LIMIT)


class World:
    """What there is at the cloud, and servers of one data folder."""

    def __init__(self, emulator: Any, folder: Path) -> None:
        self.emulator = emulator
        self._folder = folder
        self.servers: list[Server] = []

    async def __aenter__(self) -> World:
        return self

    async def __aexit__(self, *_: object) -> None:
        for server in list(self.servers):
            await self.stop(server)

    def cloud(self) -> Cloud:
        return CloudTPU(Target(emulator=str(self.emulator.state_file)))

    async def server(self, folder: Path | None = None) -> Server:
        """*folder*: of another user's server."""
        server = await Server(self.cloud(), folder or self._folder).open()
        self.servers.append(server)
        return server

    async def stop(self, server: Server) -> None:
        self.servers.remove(server)
        await server.close()

    def paths(self, name: str, kind: str, state: str = "") -> list[str]:
        """Paths of what has this name, in all zones; in *state*, if that is given. *kind*:
        nodes or queuedResources."""
        listed = self.emulator.request("GET", f"/v2/projects/emulated/locations/-/{kind}")
        paths = [item["name"] for item in listed.get(kind, []) if state in ("", item["state"])]
        return [path for path in paths if path.endswith(f"/{name}")]

    @contextlib.contextmanager
    def new_name(self) -> Iterator[str]:
        """A name for a TPU. Afterwards faults are cleared, and what has this name is deleted, also
        with more behind a hyphen.
        """
        name = f"tpu-{uuid.uuid4().hex[:8]}"
        yield name
        self.emulator.request("DELETE", "/emulator/v1/faults")
        for kind in ("queuedResources", "nodes"):
            listed = self.emulator.request("GET", f"/v2/projects/emulated/locations/-/{kind}")
            for item in listed.get(kind, ()):
                if re.search(f"/{name}(-[^/]+)?$", item["name"]) and item["state"] != "DELETING":
                    path = f"/v2/{item['name']}" + ("?force=true" if "queued" in kind else "")
                    self._delete(path)

    def _delete(self, path: str) -> None:
        """Deletes it, when what the test has left running there has ended."""

        def delete() -> Any:
            try:
                return self.emulator.request("DELETE", path)
            except EmulatorError as error:
                if error.status != 409:
                    raise
                return None

        try:
            self.emulator.wait(until(delete))
        except EmulatorError as error:
            if error.status != 404:  # the test was deleting it
                raise

    def node(self, name: str) -> dict[str, Any] | None:
        nodes = self.emulator.request("GET", NODES).get("nodes", [])
        return next((node for node in nodes if node["name"].endswith(f"/{name}")), None)

    def state(self, name: str) -> str:
        node = self.node(name)
        return node["state"] if node else "gone"

    async def used(self, fault: dict[str, Any]) -> None:
        """Waits until a fault with a count has hit that many calls."""

        def waiting() -> list[str]:
            faults = self.emulator.request("GET", "/emulator/v1/faults")["faults"]
            return [fault["id"] for fault in faults]

        await eventually(lambda: fault["id"] not in waiting())

    def remove(self, name: str) -> None:
        self.emulator.wait(self.emulator.request("DELETE", f"{NODES}/{name}"))

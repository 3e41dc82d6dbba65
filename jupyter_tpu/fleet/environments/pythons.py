"""The Pythons that were on the hosts of a TPU before it was connected."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import structs

from ...concurrency import gather_or_cancel
from ...environment import FoundPython, FoundPythons, existing_pythons
from ...errors import TPUError
from ...links import HostName
from ..core.connections import ANSWER
from ..core.core import Core


class HostPythons:
    """A :class:`~jupyter_tpu.fleet.api.PythonsAPI`."""

    def __init__(self, core: Core) -> None:
        self._finder = core.finder
        self._connections = core.connections
        self._desired = core.desired

    async def list(self, ref: str, path: str | None = None) -> FoundPythons:
        node = await self._finder.find_ready(ref)

        async def ask(worker: int) -> existing_pythons.OnHost | TPUError:
            try:
                async with self._connections.borrow(HostName(node.name, worker), ANSWER) as link:
                    return await existing_pythons.on_host(link, path or "")
            except TPUError as error:
                return error

        merged = existing_pythons.merge(
            await gather_or_cancel(list(map(ask, range(len(node.endpoints)))))
        )
        records = self._desired.environments(node.name).values()
        used = {
            record.environment.python_path: record.environment.name
            for record in records
            if record.environment.python_path
        }
        # One that was found and failed may be replaced.
        taken = {
            record.environment.name
            for record in records
            if not (record.is_existing and record.environment.state == "failed")
        }
        named = []
        for python in merged.pythons:
            name = used.get(python.path, "")
            suggested = name or unused_name(python, taken)
            taken.add(suggested)
            named.append(structs.replace(python, environment=name, name=suggested))
        return structs.replace(merged, pythons=named)


def unused_name(python: FoundPython, taken: Iterable[str]) -> str:
    """A name for an environment: the one of the Python's folder, where it has one of its own."""
    own = python.kind in ("venv", "conda")
    parts = [part.strip("._-") for part in python.prefix.lower().split("/")]
    name = parts[-1] if own else f"python{'.'.join(python.version.split('.')[:2])}"
    if own and name in ("venv", "env") and len(parts) > 4:  # in a project's folder
        name = f"{parts[-2]}-{name}"
    name = re.sub(r"[^a-z0-9._-]+", "-", name).strip("._-")[:36].rstrip("._-") or "found"
    numbered = (f"{name}-{number}" for number in range(2, 1000))
    return (
        name
        if name not in taken
        else next(candidate for candidate in numbered if candidate not in taken)
    )

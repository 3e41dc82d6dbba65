"""The exact versions of environments, by name: what the next TPU gets.

They outlive their TPUs, so they are files next to the state, one for each name.
"""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import msgspec

from ...files import write_atomically
from ...paths import private_dir
from ..models import EnvironmentLock

log = logging.getLogger(__name__)


class Locks:
    """The locks in *folder*, which is made when it is needed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def save(self, lock: EnvironmentLock) -> None:
        """Replaces the one of that name. A disk that is full is only logged."""
        try:
            await asyncio.to_thread(self._write, lock)
        except OSError as error:
            log.warning("The versions of %s could not be saved: %s", lock.environment, error)

    async def find(self, environment: str, *, emulated: bool) -> EnvironmentLock | None:
        """The one of that name, from an emulated TPU or from a real one; None if there is none."""
        try:
            content = await asyncio.to_thread(self._path(environment, emulated).read_bytes)
            return msgspec.json.decode(content, type=EnvironmentLock)
        except (OSError, msgspec.DecodeError):
            return None

    def _write(self, lock: EnvironmentLock) -> None:
        path = self._path(lock.environment, lock.emulated)
        private_dir(self._folder)
        private_dir(path.parent)
        write_atomically(path, msgspec.json.encode(lock))

    def _path(self, environment: str, emulated: bool) -> Path:
        return self._folder / ("emulated" if emulated else "tpu") / f"{environment}.json"

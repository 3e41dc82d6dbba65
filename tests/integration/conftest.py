"""Fixtures of several files: a cloud with servers of one data folder, and a TPU's name there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from fleet_world import World


@pytest_asyncio.fixture
async def world(
    emulator: Any, faults: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[World]:
    """A `World`, or what the file's `WORLD` names."""
    async with getattr(request.module, "WORLD", World)(emulator, tmp_path) as world:
        yield world


@pytest.fixture
def name(world: World) -> Iterator[str]:
    """A name for a TPU; nothing has it after the test."""
    with world.new_name() as name:
        yield name

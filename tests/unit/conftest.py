"""A fixture of several files: the store of a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from jupyter_tpu.fleet.core.store import Store


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    store = await Store.open(tmp_path / "fleet.sqlite", "google")
    yield store
    await store.close()

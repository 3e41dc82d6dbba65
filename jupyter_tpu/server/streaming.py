"""Bodies of any size that go between a browser and the core thread, where the links are."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from .handlers import Handler

T = TypeVar("T")


class StreamingHandler(Handler):
    """A handler whose request or answer is passed on while it arrives."""

    async def prepare(self) -> None:  # type: ignore[override]
        self._loop = asyncio.get_running_loop()
        await super().prepare()

    async def on_server_loop(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine on the server's loop; called on the core thread."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self._loop))

    async def write_chunk(self, chunk: bytes) -> None:
        """Returns when the browser has room for more."""
        self.write(chunk)
        await self.flush()

"""The private thread, with its own event loop, on which the core of jupyter-tpu runs.

Reasons: jupyter_client's blocking API stops the caller's loop between calls, gRPC's asyncio wants
one loop per process, and bulk traffic should stay off the server's loop. Faces submit coroutines
and get the results in their own threads.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from ..per_process import per_process

T = TypeVar("T")


class CoreThread:
    """An event loop on a daemon thread; started on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the start only
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The running loop; the thread is started if it is not yet."""
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._run, name="jupyter-tpu", daemon=True).start()
            return self._loop

    def _run(self) -> None:
        assert self._loop is not None
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Starts *coroutine* on the core thread; call it from any thread."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    async def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs *coroutine* on the core thread and awaits it here; cancelling works across."""
        if asyncio.get_running_loop() is self._loop:
            return await coroutine
        return await asyncio.wrap_future(self.submit(coroutine))

    def wait(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Runs *coroutine* on the core thread and blocks this one; *timeout* in seconds.

        An interrupt or the timeout cancels the coroutine before it is raised here.
        """
        future = self.submit(coroutine)
        try:
            return future.result(timeout)
        except BaseException:
            future.cancel()
            raise


@per_process
def core_thread() -> CoreThread:
    """This process's one core thread."""
    return CoreThread()

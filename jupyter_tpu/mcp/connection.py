"""The Jupyter server that tools use, with the agents' token; found again when it was restarted."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from ..errors import Reason, TPUError

if TYPE_CHECKING:
    from ..fleet.client import FleetClient

#: Seconds in which a call has to answer: an agent waits for none for long.
ANSWER_SECONDS = 60.0


class FleetConnection:
    """The fleet of a server. For any loop."""

    def __init__(self) -> None:
        self._client: FleetClient | None = None

    async def call(self, method: str, *arguments: Any) -> Any:
        """The result of a method of the fleet, such as "jobs.start".

        A server that can't be reached is looked for again, once: it may have been restarted. What
        was sent to it may have had an effect, so only a call that changes nothing is repeated.
        """
        from ..fleet.routes import BY_CALL

        reads = BY_CALL[method].method == "GET"
        try:
            return await on_core(self._call(method, arguments))
        except TPUError as error:
            if error.reason is not Reason.UNREACHABLE or self._client is None:
                raise
            self._client = None
            if not reads:
                raise TPUError(
                    f"{error.message} It is not known whether it has done this.",
                    error.reason,
                    "See its state first (tpu_list, tpu_operations), then try again.",
                ) from None
        return await on_core(self._call(method, arguments))

    async def _call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        if self._client is None:
            self._client = await find()
        async with asyncio.timeout(ANSWER_SECONDS):
            return await operator.attrgetter(method)(self._client)(*arguments)


async def find() -> FleetClient:
    """The newest server of this user that works on the cloud of the environment.

    Raises CONFLICT if there is none.
    """
    from ..terminal.session import current_target, find_server

    running_server = await find_server(current_target(), [], agent=True)
    if running_server is None:
        raise TPUError(
            "No Jupyter server with jupyter-tpu runs for this project. It keeps the budget of "
            "agents.",
            Reason.CONFLICT,
            "Ask a person to start `jupyter lab`.",
        )
    return running_server[1]


async def on_core(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Runs it on the core's thread; a timeout is our error."""
    from ..links import core_thread

    try:
        return await core_thread().call(coroutine)
    except TimeoutError:
        raise TPUError(
            f"The Jupyter server did not answer within {ANSWER_SECONDS:.0f} s.",
            Reason.TIMEOUT,
            "See the state first (tpu_operations), then try again.",
        ) from None


connection = FleetConnection()

"""Requests to the port of a server whose TPU is stopped: they start the TPU, and wait for it. Where
they may not, and where it was preempted, they are told so at once.

Only while a Jupyter server runs, whose tunnel listens. However many requests come, the TPU is
started once; a start that fails is not tried again for a while. What it may cost was agreed to when
the server was started.
"""

from __future__ import annotations

import asyncio
import json
import logging

from ...cloud import NodeName, NodeState
from ...concurrency import cancel_all
from ...errors import Reason, TPUError
from ...own_log import happened
from ..core.core import Core
from ..jobs.jobs import JobService
from ..lifecycle.power import PowerService
from ..models import Job, ServingSettings, StartTPU, model_server

log = logging.getLogger(__name__)

#: Requests that are held at the same time; more are answered at once.
MOST_HELD = 200
#: Between two looks at what starts; seconds.
LOOK_SECONDS = 0.25
#: After which a start that failed is tried again, and in which a server must be healthy; seconds.
RETRY_SECONDS, START_SECONDS = 60.0, 1800.0
#: What clients are told to wait; seconds.
RETRY_AFTER = 30
Target = tuple[NodeName, int, int]


class RequestStarts:
    """Admits connections to the ports of servers."""

    def __init__(self, core: Core, jobs: JobService, power: PowerService) -> None:
        self._observed = core.observed
        self._observer = core.observer
        self._jobs = jobs
        self._power = power
        self._starts: dict[str, asyncio.Task[None]] = {}  # by job
        self._failed: dict[str, tuple[float, TPUError]] = {}
        self._held = 0
        self._time = asyncio.get_running_loop().time

    async def close(self) -> None:
        await cancel_all(self._starts.values())

    async def admit(self, name: NodeName, host: int, port: int) -> bytes:
        """b"" when a new connection to this port of a host can go on, perhaps after the TPU was
        started; else an answer for its client.
        """
        job = self._jobs.known_server(name, host, port)
        if job is None or job.serving is None or self._is_up(name, job):
            return b""
        node = self._observed.node(name)
        ready = node is not None and node.state is NodeState.READY
        if not job.serving.start_on_request:
            if ready or node is None:
                return b""  # what is not ready on the host says it itself
            return _unavailable(f"The TPU {name.node} is {node.state.lower()}.")
        failed = self._failed.get(job.id)
        if failed is not None and self._time() < failed[0] + RETRY_SECONDS:
            return _unavailable(failed[1].message)
        starting = f"{name.node} is starting. Try again in a while."
        if ready and job.state == "unknown":
            starting = f"{name.node} can't be reached now. Try again later."
        if self._held >= MOST_HELD:
            return _unavailable(starting)
        task = self._starts.get(job.id)
        if task is None:
            task = asyncio.create_task(self._start(name, job.id, job.serving), name="on request")
            self._starts[job.id] = task
            task.add_done_callback(lambda _: self._starts.pop(job.id, None))
        self._held += 1
        try:
            async with asyncio.timeout(job.serving.hold_limit):
                await asyncio.shield(task)
        except TimeoutError:
            return _unavailable(starting)
        except TPUError as error:
            return _unavailable(error.message)
        finally:
            self._held -= 1
        return b""

    def _is_up(self, name: NodeName, job: Job) -> bool:
        return self._observed.is_ready(name) and model_server(job).state in ("healthy", "unhealthy")

    async def _start(self, name: NodeName, id: str, settings: ServingSettings) -> None:
        """Starts the TPU if it is stopped, and waits until the server is healthy."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._start_tpu(name, settings)
                await self._until_healthy(name, id)
        except TimeoutError:
            error = TPUError(
                f"The server on {name.node} is not healthy after {START_SECONDS / 60:.0f} minutes.",
                Reason.TIMEOUT,
            )
            self._failed[id] = self._time(), error
            raise error from None
        except TPUError as error:
            log.warning("A request can't start %s: %s", name.node, error)
            self._failed[id] = self._time(), error
            raise
        self._failed.pop(id, None)

    async def _start_tpu(self, name: NodeName, settings: ServingSettings) -> None:
        while True:
            node = self._observed.node(name)
            if node is None or node.state.gone:
                state = node.state.lower() if node is not None else "gone"
                raise TPUError(f"The TPU {name.node} is {state}.", Reason.CONFLICT)
            if node.state is NodeState.STOPPED:
                options = StartTPU(
                    confirm_price=settings.confirm_price, max_price=settings.max_price
                )
                try:
                    operation = await self._power.start(name, options)
                except TPUError as error:
                    if error.reason is not Reason.CONFLICT:
                        raise  # else somebody starts it, or it changes
                else:
                    happened(
                        "a request to its server starts it",
                        tpu=name.node,
                        operation=operation.id,
                        costs=True,
                    )
                    return
            elif node.state in (NodeState.READY, NodeState.STARTING):
                return
            self._observer.request_refresh()
            await asyncio.sleep(LOOK_SECONDS)

    async def _until_healthy(self, name: NodeName, id: str) -> None:
        while True:
            job = self._jobs.find(id)
            if job is None or job.stopped or job.over:
                why = "" if job is None else model_server(job).cause
                raise TPUError(f"The server on {name.node} has ended. {why}".strip())
            node = self._observed.node(name)
            if node is None or node.state.gone or node.state is NodeState.STOPPED:
                # An older list may still say that of what was started a moment ago.
                self._observer.request_refresh()
            elif self._is_up(name, job):
                return
            await asyncio.sleep(LOOK_SECONDS)


def _unavailable(message: str) -> bytes:
    """An answer that all HTTP clients understand; the body is as OpenAI's clients expect it."""
    body = json.dumps({"error": {"message": message, "type": "unavailable", "code": 503}}).encode()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nRetry-After: {RETRY_AFTER}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body

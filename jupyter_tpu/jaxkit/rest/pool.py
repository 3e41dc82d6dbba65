"""Worker processes for REST: started when needed, stopped when idle, killed when they hang.

Plain asyncio. A pool belongs to the loop on which it is first used.
"""

from __future__ import annotations

import asyncio
import contextlib
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections import OrderedDict, deque

import msgspec

from ...errors import InvalidInput, Reason, TPUError, error_for
from ...python_command import module_command
from ..processes.frames import LENGTHS, lengths, pack
from ..processes.watched import clean_environment
from .models import Answer
from .worker import MAX_ANSWER, MAX_BODY, AnswerHead

#: Starting Python on a busy machine.
_START_SECONDS = 60.0
#: Bytes of the bodies of all requests that wait or run.
_MOST_BYTES = 64 << 20


class JaxWorker:
    """Answers requests in its worker processes, one request per process at a time.

    Parameters
    ----------
    processes: the most processes, each with about 200 MB.
    seconds: the time limit of a request; its process is killed then.
    memory_bytes: the memory of a request, beyond an idle process.
    waiting: the most requests that wait; more are rejected at once.
    idle_seconds: an idle process is stopped after this time.
    """

    def __init__(
        self,
        *,
        processes: int = 2,
        seconds: float = 30.0,
        memory_bytes: int = 1 << 30,
        waiting: int = 1000,
        idle_seconds: float = 300.0,
    ) -> None:
        self._most = processes
        self._seconds = seconds
        self._memory = memory_bytes
        self._may_wait = waiting
        self._idle_seconds = idle_seconds
        self._idle: list[_Worker] = []
        self._working: set[_Worker] = set()
        self._bytes = 0  # of requests that wait or run
        self._busy = 0  # processes at work or being started
        self._quiet = asyncio.Event()  # none is
        self._quiet.set()
        self._queues: OrderedDict[str, deque[asyncio.Future[_Worker | None]]] = OrderedDict()
        self._ending: set[asyncio.Task[None]] = set()
        self._closed = False

    async def request(self, name: str, body: bytes, *, client: str = "") -> Answer:
        """The answer to the request *name* ("prng/sample", "placement", …) with that JSON body.

        Clients take turns: a client with a hundred requests delays another by one request, not a
        hundred. Cancelling leaves the queue, or kills the process.

        Raises `InvalidInput`, or `TPUError` with NOT_FOUND for an unknown request, TIMEOUT,
        UNAVAILABLE if too many wait, or INTERNAL if the process dies.
        """
        if len(body) > MAX_BODY:
            raise InvalidInput(f"The request has {len(body):,} bytes; {MAX_BODY:,} are allowed.")
        if self._bytes + len(body) > _MOST_BYTES:
            raise _too_many()
        self._bytes += len(body)
        try:
            return await self._answered(name, body, client)
        finally:
            self._bytes -= len(body)

    async def _answered(self, name: str, body: bytes, client: str) -> Answer:
        worker = await self._turn(client)
        healthy = False
        try:
            if worker is None:
                worker = await _Worker.start(self._memory)
            self._working.add(worker)
            try:
                if self._closed:
                    raise _closing()
                async with asyncio.timeout(self._seconds):
                    head, content = await worker.ask(name, body)
            except TimeoutError:
                raise TPUError(
                    f"The request took longer than {self._seconds:g} s and was stopped.",
                    Reason.TIMEOUT,
                    "Request less, or compute it in a notebook.",
                ) from None
            except (EOFError, ConnectionError, ValueError) as error:
                if self._closed:
                    raise _closing() from None
                raise TPUError(
                    "The worker process of the request died.",
                    Reason.INTERNAL,
                    "It may have run out of memory: request less.",
                ) from error
            healthy = not head.last
        finally:
            self._give_back(worker, healthy)
        if head.reason is not None:
            raise error_for(head.message, head.reason, head.hint)
        return Answer(content_type=head.content_type, body=content, headers=head.headers)

    async def close(self) -> None:
        """Stops all processes; waiting and running requests fail."""
        self._closed = True
        for queue in self._queues.values():
            for place in queue:
                if not place.done():
                    place.set_exception(_closing())
        self._queues.clear()
        for worker in self._idle:
            self._end(worker)
        self._idle.clear()
        for worker in self._working:
            worker.kill()  # its request gives it back
        async with asyncio.timeout(_START_SECONDS):
            await self._quiet.wait()
        while self._ending:
            await asyncio.wait(set(self._ending), timeout=10)

    async def _turn(self, client: str) -> _Worker | None:
        """Waits for a process: an idle one, or None for the right to start one."""
        if self._closed:
            raise _closing()
        if sum(len(queue) for queue in self._queues.values()) >= self._may_wait:
            raise _too_many()
        place: asyncio.Future[_Worker | None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(client, deque()).append(place)
        self._serve()
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.exception() is None:
                # The turn came at the same moment: pass it on.
                self._give_back(place.result(), True)
            raise

    def _serve(self) -> None:
        while self._queues and (self._idle or self._busy + len(self._idle) < self._most):
            client, queue = next(iter(self._queues.items()))
            place = queue.popleft()
            # To the end of the line: the other clients come first.
            del self._queues[client]
            if queue:
                self._queues[client] = queue
            if place.done():
                continue
            self._busy += 1
            self._quiet.clear()
            worker = self._idle.pop() if self._idle else None
            if worker is not None:
                worker.set_idle_timer(None)
            place.set_result(worker)

    def _give_back(self, worker: _Worker | None, healthy: bool) -> None:
        self._busy -= 1
        if worker is not None:
            self._working.discard(worker)
            if healthy and not self._closed:
                self._idle.append(worker)
                loop = asyncio.get_running_loop()
                worker.set_idle_timer(loop.call_later(self._idle_seconds, self._retire, worker))
            else:
                self._end(worker)
        if not self._closed:
            self._serve()
        if not self._busy:
            self._quiet.set()

    def _retire(self, worker: _Worker) -> None:
        if worker in self._idle:
            self._idle.remove(worker)
            self._end(worker)

    def _end(self, worker: _Worker) -> None:
        worker.kill()
        task = asyncio.get_running_loop().create_task(worker.wait_closed())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


class _Worker:
    """One process; one request at a time."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._timer: asyncio.TimerHandle | None = None

    @classmethod
    async def start(cls, memory_bytes: int) -> _Worker:
        process = await asyncio.create_subprocess_exec(
            *module_command("jupyter_tpu.jaxkit.rest.worker", str(memory_bytes)),
            stdin=PIPE,
            stdout=PIPE,
            stderr=DEVNULL,
            env={
                **clean_environment(),
                "JAX_PLATFORMS": "cpu",
                "JAX_ENABLE_COMPILATION_CACHE": "false",
                # Few, small requests: threads would cost more than they save.
                "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
            },
        )
        worker = cls(process)
        try:
            async with asyncio.timeout(_START_SECONDS):
                head, _ = await worker._answer()
            if not head.ready:
                raise EOFError
        except (TimeoutError, EOFError) as error:
            worker.kill()
            await worker.wait_closed()
            raise TPUError(
                "The worker process for JAX did not start.",
                Reason.ENVIRONMENT,
                "Check that JAX is installed next to the server: pip install 'jupyter-tpu[jax]'.",
            ) from error
        except BaseException:
            worker.kill()
            await worker.wait_closed()
            raise
        return worker

    async def ask(self, name: str, body: bytes) -> tuple[AnswerHead, bytes]:
        self._stdin.write(pack(name.encode(), body))
        await self._stdin.drain()
        return await self._answer()

    async def _answer(self) -> tuple[AnswerHead, bytes]:
        head, body = lengths(await self._stdout.readexactly(LENGTHS), MAX_ANSWER)
        text = await self._stdout.readexactly(head)
        content = await self._stdout.readexactly(body) if body else b""
        return msgspec.json.decode(text, type=AnswerHead), content

    def set_idle_timer(self, timer: asyncio.TimerHandle | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = timer

    def kill(self) -> None:
        self.set_idle_timer(None)
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):  # it may just have ended
                self._process.kill()

    async def wait_closed(self) -> None:
        """Waits until the process has ended and its pipes are closed."""
        self._stdin.close()
        await self._process.wait()


def _too_many() -> TPUError:
    return TPUError("Too many requests are waiting.", Reason.UNAVAILABLE, "Try again in a moment.")


def _closing() -> TPUError:
    return TPUError("The server is stopping.", Reason.INTERRUPTED)

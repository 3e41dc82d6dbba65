"""POST jax/compile and jax/plan: programs compiled for TPUs without using one, as operations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from tornado import web

from ..errors import InvalidInput, Reason, TPUError
from ..links import core_thread
from ..wording import count
from .handlers import Handler
from .languages import encoded

if TYPE_CHECKING:
    from ..fleet.core.known_operations import OperationProgress
    from ..jaxkit.compile.models import CompileRequest, CompileTrial, PlanRequest
    from ..jaxkit.compile.plan_row import PlanRow
    from ..jaxkit.compile.planner import Planning
    from .fleet_handle import FleetHandle

Request = TypeVar("Request", "CompileRequest", "PlanRequest")

#: Bytes of a request: a program's code and shapes.
MAX_REQUEST = 2 << 20
#: Programs that may run or wait at the same time. Further ones are refused.
MAX_OPERATIONS = 100
#: Lines of an operation's log. A program may print endlessly, and each event contains the log.
MAX_LOG_LINES = 200
#: Bytes of a report, which is stored for days. Typical ones have a few thousand.
MAX_REPORT = 1 << 20
_WAITS = "Waiting for its turn"


class Compilations:
    """Runs one compiler at a time, because each may take gigabytes."""

    def __init__(self, fleet: FleetHandle) -> None:
        self._fleet = fleet
        self._turn: asyncio.Lock | None = None

    async def start(self, body: bytes) -> bytes:
        """The operation as JSON. Raises `TPUError` for an invalid request, UNAVAILABLE if too many
        programs are waiting.
        """
        return await core_thread().call(self._start(body))

    async def start_plan(self, body: bytes) -> bytes:
        """As `start`, for jax/plan."""
        return await core_thread().call(self._start_plan(body))

    # ---- on the core thread ----

    async def _start(self, body: bytes) -> bytes:
        from ..jaxkit.compile.compiler import types_to_try
        from ..jaxkit.compile.models import CompileRequest

        request = _checked(CompileRequest, body)
        names = types_to_try(request)
        return await self._begin(
            "compile", lambda progress: self._compile(request, names, progress)
        )

    async def _start_plan(self, body: bytes) -> bytes:
        from ..jaxkit.compile.models import PlanRequest
        from ..jaxkit.compile.planner import planning_of

        request = _checked(PlanRequest, body)
        planning = planning_of(request)
        return await self._begin("plan", lambda progress: self._plan(request, planning, progress))

    async def _begin(self, kind: str, work: Callable[[OperationProgress], Any]) -> bytes:
        local = await self._fleet.local()
        running = [
            operation
            for operation in await local.list()
            if operation.kind in ("compile", "plan") and operation.state == "running"
        ]
        if len(running) >= MAX_OPERATIONS:
            raise TPUError(
                f"{MAX_OPERATIONS} programs are waiting to be compiled.",
                Reason.UNAVAILABLE,
                "Try again later, or cancel one with DELETE operations/ID.",
            )
        return msgspec.json.encode(await local.start(kind, work, _WAITS))

    def _my_turn(self) -> asyncio.Lock:
        self._turn = self._turn or asyncio.Lock()
        return self._turn

    async def _plan(
        self, request: PlanRequest, planning: Planning, progress: OperationProgress
    ) -> None:
        from ..jaxkit.compile.planner import plan_code
        from ..progress import StepPlan

        keys = planning.keys
        progress.plan(
            [StepPlan(key, f"Compile for {key}", 1.0) for key in keys], measured=len(keys) > 1
        )
        watch = _PlanProgress(progress)
        async with self._my_turn():
            table = await plan_code(request, watch, planning)
        for key in keys:
            if key not in watch.ended:  # the time was over before
                progress.done(key, "skipped")
        progress.log(
            f"The cheapest is {table.best.title}." if table.best else "No type has a price a step."
        )
        _keep(progress, table)

    async def _compile(
        self, request: CompileRequest, names: list[str], progress: OperationProgress
    ) -> None:
        from ..jaxkit.compile.compiler import compile_code
        from ..progress import StepPlan

        several = len(names) > 1
        title = "Try {}" if several else "Compile for {}"
        steps = [StepPlan(name, title.format(name), 1.0) for name in names]
        progress.plan(steps, measured=several)
        async with self._my_turn():
            outcome = await compile_code(request, _CompileProgress(progress))
        for step in steps[len(outcome.tried) :]:
            progress.done(step.key, "skipped")
        progress.log(
            f"The program fits {outcome.type}."
            if outcome.type
            else f"The program fits none of {count(len(outcome.tried), 'type')} tried."
        )
        _keep(progress, outcome)


def _checked(kind: type[Request], body: bytes) -> Request:
    """The request; raises `InvalidInput` for wrong fields, shapes and meshes."""
    from ..jaxkit.arrays import flat_arrays
    from ..jaxkit.rest.models import decode
    from ..jaxkit.sharding.axes import axis_sizes

    if len(body) > MAX_REQUEST:
        raise InvalidInput(f"The request has {len(body):,} bytes; {MAX_REQUEST:,} are allowed.")
    request = decode(kind, body)
    flat_arrays({f"Argument {n}": row for n, row in enumerate(request.arguments)})
    if request.mesh is not None and -1 not in request.mesh.values():
        axis_sizes(request.mesh, None)  # the rest depends on the type
    return request


def _keep(progress: OperationProgress, result: msgspec.Struct) -> None:
    """Makes it the result of the operation."""
    if len(msgspec.json.encode(result)) > MAX_REPORT:
        raise InvalidInput(
            "The report of this program is too long.",
            "Use shorter names for its functions and arguments.",
        )
    progress.operation.result = msgspec.to_builtins(result)


class _Progress:
    """Reports compilation as an operation's steps and log."""

    def __init__(self, progress: OperationProgress) -> None:
        self._progress = progress

    def begin(self, type: str) -> None:
        self._progress.begin(type)

    def say(self, words: str) -> None:
        self._progress.set_message(words)
        self._progress.log(f"{words} …")

    def log(self, line: str) -> None:
        self._progress.log(line)
        del self._progress.operation.log[:-MAX_LOG_LINES]


class _CompileProgress(_Progress):
    """A `compiler.Watch`."""

    def end(self, trial: CompileTrial) -> None:
        if trial.fits is None:
            self._progress.log(f"{trial.type} is skipped: {trial.why}")
            self._progress.done(trial.type, "skipped")
            return
        self._progress.log(
            f"It fits {trial.type}." if trial.fits else f"It does not fit {trial.type}: {trial.why}"
        )
        self._progress.done(trial.type)


class _PlanProgress(_Progress):
    """A `planner.RowWatch`."""

    def __init__(self, progress: OperationProgress) -> None:
        super().__init__(progress)
        self.ended: set[str] = set()

    def end(self, key: str, row: PlanRow) -> None:
        self.ended.add(key)
        self.log(f"{row.title}: {row.reason or 'compiled'}")
        self._progress.done(key)


class CompileHandler(Handler):
    """Starts a compilation. The code runs as the server's user, as in a kernel, so the caller
    needs permission to execute kernels, too.
    """

    def initialize(self, start: Callable[[bytes], Awaitable[bytes]]) -> None:
        self._start = start

    @web.authenticated
    @authorized
    async def post(self) -> None:
        allowed: Any = self.authorizer.is_authorized(self, self.current_user, "execute", "kernels")
        if not await ensure_async(allowed):
            raise web.HTTPError(
                403, "Compiling runs code, so it needs permission to execute kernels."
            )
        try:
            operation = await self._start(self.request.body)
        except TPUError as error:
            self.write_problem(error)
            return
        if self.language:
            operation = encoded(msgspec.json.decode(operation), self.language)
        self.set_status(202)
        self.finish(operation)

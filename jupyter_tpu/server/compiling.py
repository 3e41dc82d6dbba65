"""POST jax/compile: compiles programs for TPUs without using one. Each is an operation."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
from jupyter_core.utils import ensure_async
from jupyter_server.auth.decorator import authorized
from tornado import web

from ..errors import InvalidInput, Reason, TPUError
from ..links import core_thread
from ..wording import count
from .handlers import Handler

if TYPE_CHECKING:
    from ..fleet.core.operation_progress import OperationProgress
    from ..jaxkit.compile.models import CompileRequest, CompileTrial
    from .fleet_handle import FleetHandle

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

    # ---- on the core thread ----

    async def _start(self, body: bytes) -> bytes:
        from ..jaxkit.arrays import flat_arrays
        from ..jaxkit.compile.compiler import types_to_try
        from ..jaxkit.compile.models import CompileRequest
        from ..jaxkit.rest.requests import decode
        from ..jaxkit.sharding.axes import axis_sizes

        if len(body) > MAX_REQUEST:
            raise InvalidInput(f"The request has {len(body):,} bytes; {MAX_REQUEST:,} are allowed.")
        request = decode(CompileRequest, body)
        names = types_to_try(request)
        flat_arrays({f"Argument {n}": row for n, row in enumerate(request.arguments)})
        if request.mesh is not None and -1 not in request.mesh.values():
            axis_sizes(request.mesh, None)  # the rest depends on the type
        local = await self._fleet.local()
        running = [o for o in await local.list() if o.kind == "compile" and o.state == "running"]
        if len(running) >= MAX_OPERATIONS:
            raise TPUError(
                f"{MAX_OPERATIONS} programs are waiting to be compiled.",
                Reason.UNAVAILABLE,
                "Try again later, or cancel one with DELETE operations/ID.",
            )
        operation = await local.start(
            "compile", lambda progress: self._compile(request, names, progress), _WAITS
        )
        return msgspec.json.encode(operation)

    async def _compile(
        self, request: CompileRequest, names: list[str], progress: OperationProgress
    ) -> None:
        from ..environment import StepPlan
        from ..jaxkit.compile.compiler import compile_code

        several = len(names) > 1
        title = "Try {}" if several else "Compile for {}"
        steps = [StepPlan(name, title.format(name), 1.0) for name in names]
        progress.plan(steps, measured=several)
        self._turn = self._turn or asyncio.Lock()
        async with self._turn:
            outcome = await compile_code(request, _CompileProgress(progress))
        for step in steps[len(outcome.tried) :]:
            progress.done(step.key, "skipped")
        progress.log(
            f"The program fits {outcome.type}."
            if outcome.type
            else f"The program fits none of {count(len(outcome.tried), 'type')} tried."
        )
        if len(msgspec.json.encode(outcome)) > MAX_REPORT:
            raise InvalidInput(
                "The report of this program is too long.",
                "Use shorter names for its functions and arguments.",
            )
        progress.operation.result = msgspec.to_builtins(outcome)


class _CompileProgress:
    """Reports compilation as an operation's steps and log (`compiler.Watch`)."""

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

    def end(self, trial: CompileTrial) -> None:
        if trial.fits is None:
            self._progress.log(f"{trial.type} is skipped: {trial.why}")
            self._progress.done(trial.type, "skipped")
            return
        self._progress.log(
            f"It fits {trial.type}." if trial.fits else f"It does not fit {trial.type}: {trial.why}"
        )
        self._progress.done(trial.type)


class CompileHandler(Handler):
    """Starts a compilation. The code runs as the server's user, as in a kernel, so the caller
    needs permission to execute kernels, too.
    """

    def initialize(self, compilations: Compilations) -> None:
        self._compilations = compilations

    @web.authenticated
    @authorized
    async def post(self) -> None:
        allowed: Any = self.authorizer.is_authorized(self, self.current_user, "execute", "kernels")
        if not await ensure_async(allowed):
            raise web.HTTPError(
                403, "Compiling runs code, so it needs permission to execute kernels."
            )
        try:
            operation = await self._compilations.start(self.request.body)
        except TPUError as error:
            self.write_problem(error)
            return
        self.set_status(202)
        self.finish(operation)

"""Functions that run on a TPU: ``@tpu.run(type="v5litepod-8")``.

    from jupyter_tpu import tpu

    @tpu.run(type="v5litepod-8", max_cost=5)
    def train(steps): ...

    loss = train(1000)

The first call creates the TPU, and later calls use it, too. It is deleted when this process ends,
by `tpu.close()`, and at its limits whatever happens. Function and arguments are sent as by
``%tpu push``. The value that comes back is read without running code of the host.
"""

from __future__ import annotations

import ast
import atexit
import concurrent.futures.thread  # noqa: F401 – before `close` is registered: see there
import contextlib
import functools
import inspect
import io
import sys
import textwrap
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from .errors import InvalidInput, Reason, TPUError
from .per_process import per_process

if TYPE_CHECKING:
    from .commands.once_tpu import HeldTPU, OnceTPU
    from .fleet.models import Operation, Plan
    from .terminal.session import FleetSession

P = ParamSpec("P")
R = TypeVar("R")

#: The call, and its value, as variables of the kernel on the TPU.
_CALL, _VALUE = "_jupyter_tpu_call", "_jupyter_tpu_value"
_CODE = f"{_VALUE} = (lambda call: call[0](*call[1], **call[2]))({_CALL})"
_SOURCE_CODE = f"""
def _jupyter_tpu_run(name, sources, used, args, kwargs):
    import linecache
    for number, source in enumerate(sources):
        file = f"<function {{number}} of @tpu.run>"
        linecache.cache[file] = len(source), None, source.splitlines(True), file
        exec(compile(source, file, "exec"), used)
    return used[name](*args, **kwargs)
{_VALUE} = _jupyter_tpu_run(*{_CALL})
"""
_CLEAR = f"del {_CALL}\nglobals().pop({_VALUE!r}, None)"


def run(
    *,
    type: str,
    zone: str = "",
    spot: bool = False,
    max_cost: float | None = None,
    max_price: float | None = None,
    timeout: float = 3600.0,
    keep: float = 0.0,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Has a function run on a TPU, and returns its value here.

    Parameters
    ----------
    type: such as "v5litepod-8". On one of several hosts, the function runs on all of them, in one
        `jax.distributed` group, and the value is that of host 0.
    zone: "-": all zones that offer the type; several with commas; "": gcloud's.
    max_cost: USD that the TPU may cost at most. Without it, nothing that costs money is created
        outside of a budget.
    max_price: USD that an hour may cost at most.
    timeout: seconds that the TPU is there for calls, from the first one on.
    keep: seconds that it is kept without work for the next program; 0: it is deleted at once.

    What the function prints and shows appears here, and so does what it raises, of several hosts
    with the number of the host. Its value is made
    of plain values, arrays and data frames; of another one InvalidInput is raised.
    """
    from .commands.once_tpu import OnceTPU

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        requested_tpu = OnceTPU(
            type=type,
            zone=zone,
            spot=spot,
            max_cost=max_cost,
            max_price=max_price,
            timeout=timeout,
            keep=keep,
            title=function.__name__,
        )

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            _require_sendable(function)
            return _call(requested_tpu, (function, args, kwargs))

        return call

    return decorate


def close() -> None:
    """Deletes the TPUs of this process, or leaves those that are kept to their guards."""
    with _lock():
        while runners := _runners():
            runners.popitem()[1].close()


@per_process
def _runners() -> dict[str, _Runner]:
    return {}


#: One call at a time, as a kernel runs them.
_lock = per_process(threading.RLock)


class _Runner:
    """A TPU with a kernel, for all calls that want the same one."""

    def __init__(self, requested_tpu: OnceTPU) -> None:
        from .commands import once_tpu as once
        from .magics.comms import Comms
        from .magics.kernels import kernelspec_of
        from .magics.remote import RemoteKernel
        from .terminal.session import open_session

        self._requested_tpu = requested_tpu
        with contextlib.ExitStack() as stack:
            self._session = stack.enter_context(open_session())
            self._held: HeldTPU = once.acquire(
                self._session, requested_tpu, self._approve, self._finish, _say
            )
            stack.callback(self._release)
            tpu = self._held.tpu
            several = len(tpu.hosts) > 1  # then in a pod kernel
            spec = kernelspec_of(tpu, "default", all_hosts=several)
            if spec is None:
                raise TPUError(f"{tpu.name} has no kernel.", Reason.CONFLICT, "Try again.")
            self.kernel = RemoteKernel(spec[0], tpu.name, "default", spec[1], several)
            stack.callback(self.kernel.end)
            self.kernel.start()
            self.comms = Comms(self.kernel)
            stack.callback(self.comms.close)
            self._stack = stack.pop_all()

    def close(self) -> None:
        self._stack.close()

    def after_loss(self) -> OnceTPU:
        """What another TPU may cost, in the place of one whose kernel has ended. Raises INTERRUPTED
        where somebody has ended the TPU, and not Google.
        """
        from .commands import once_tpu as once
        from .terminal.session import open_session

        if once.how_ended(self._session, self._held) in ("ended", "gone"):
            error = once.ended_error(self._held)
            hint = "To have another one created, call `tpu.close()` first."
            raise TPUError(error.message, error.reason, hint)
        self.close()
        with open_session() as session:
            return once.for_next_attempt(session, self._requested_tpu, self._held)

    def _approve(self, plan: Plan) -> Operation:
        from .agent_token import acts_as_agent
        from .fleet.models import CarryOutPlan

        _say(f"At most ${plan.most:.2f}, about ${plan.usd_per_hour:.2f} an hour. {plan.guard}")
        if plan.outside and self._requested_tpu.max_cost is None and not acts_as_agent():
            raise TPUError(
                f"{plan.name} can cost ${plan.most:.2f}. {plan.outside}",
                Reason.PRICE,
                "Say how much it may cost: max_cost=…",
            )
        approve = CarryOutPlan(approve=bool(plan.outside) and not acts_as_agent())
        done = self._session.call(self._session.fleet.plans.carry_out(plan.id, approve))
        return self._session.call(self._session.fleet.operations.get(done.operation))

    def _finish(self, session: FleetSession, operation: Operation) -> Operation:
        """Waits for an operation, and for what follows on it; says what it does."""
        from .fleet.client import wait_for_end
        from .links import core_thread

        said: list[str] = []

        def show(state: Operation) -> None:
            line = state.message
            if line and line not in said[-1:]:
                said.append(line)
                _say(f"{state.tpu}: {line}")

        ended = core_thread().wait(wait_for_end(session.fleet, operation, show))
        if ended.problem is not None:
            raise ended.problem.to_error()
        for other in session.call(session.fleet.operations.list()):
            follows = other.kind in ("guard", "connect") and operation.kind in ("create", "hunt")
            if follows and (other.tpu, other.zone) == (ended.tpu, ended.zone):
                self._finish(session, other)
        return ended

    def _release(self) -> None:
        from .commands import once_tpu as once

        once.release(self._session, self._held, self._requested_tpu, self._finish, _say)


def _call(requested_tpu: OnceTPU, call: tuple[Any, ...]) -> Any:
    from .magics import stream
    from .magics.cells import CellOutput
    from .magics.failures import remote_error

    with _lock():
        runner = _runners().get(requested_tpu.key)
        if runner is not None and not runner.kernel.alive():
            requested_tpu = runner.after_loss()
            del _runners()[requested_tpu.key]
            runner = None
        if runner is None:
            runner = _runners()[requested_tpu.key] = _Runner(requested_tpu)
        kernel = runner.kernel
        code = _CODE
        try:
            stream.push(kernel, {_CALL: call}, lambda done, total: None)
        except InvalidInput as error:
            if "contains code of Python" not in error.message:
                raise
            code = _SOURCE_CODE  # the TPU has another version, which can't read compiled code
            function, args, kwargs = call
            by_source = (function.__name__, *_source(function), args, kwargs)
            stream.push(kernel, {_CALL: by_source}, lambda done, total: None)
        cell = kernel.execute(code, allow_stdin=False, store_history=False)
        output = CellOutput(runner.comms)
        try:
            for channel, message in cell:
                if channel == "iopub":
                    output.show(message)
        except KeyboardInterrupt:
            kernel.interrupt()
            cell.wait(30.0)
            raise
        try:
            if output.error is not None:
                classes = output.classes or [output.error.get("ename", "")]
                raise remote_error(output.error, classes)
            values, _ = stream.pull(kernel, [_VALUE], lambda done, total: None, unpickle=False)
        finally:
            for _ in kernel.execute(_CLEAR, silent=True, store_history=False):
                pass
        return values[_VALUE]


def _require_sendable(function: Callable[..., Any]) -> None:
    """Raises InvalidInput that names what a function uses and can't be sent, such as a lock."""
    values: dict[str, object] = {}
    with contextlib.suppress(TypeError, ValueError):  # not a plain function, or not complete yet
        used = inspect.getclosurevars(function)
        values = {**used.nonlocals, **used.globals}
    problem, what = _why_not_sendable(function), "something"
    for name, value in values.items():
        # cloudpickle sends the text of an open file, which is not what the function has here.
        is_file = isinstance(value, io.IOBase)
        if is_file or (problem and _why_not_sendable(value)):
            problem = problem or "it is an open file"
            what = f"{name} ({value.__class__.__name__})"
            break
    if problem:
        raise InvalidInput(
            f"{function.__name__} uses {what}, which can't be sent to a TPU: {problem}.",
            "Make it inside the function, or pass what it is made of as an argument.",
        )


def _why_not_sendable(value: object) -> str:
    """The reason; "" for what can be sent."""
    import cloudpickle

    try:
        cloudpickle.dumps(value)
    except Exception as error:
        return str(error) or error.__class__.__name__
    return ""


def _source(function: Callable[..., Any]) -> tuple[list[str], dict[str, Any]]:
    """The sources of a function and of the functions that it uses, and the values that they use.

    Raises InvalidInput for a function whose source is not known.
    """
    sources: list[str] = []
    values: dict[str, Any] = {}
    seen: set[str] = set()

    def add(one: Callable[..., Any]) -> None:
        if one.__name__ in seen:
            return
        seen.add(one.__name__)
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(one)))
        except (OSError, SyntaxError, TypeError):
            raise InvalidInput(
                f"The TPU has another version of Python, and the source of {one.__name__} is not "
                "known.",
                "Define it in a file or a cell, with def.",
            ) from None
        (definition,) = tree.body
        if isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef):
            definition.decorator_list = []
        used = inspect.getclosurevars(one)
        for name, value in {**used.nonlocals, **used.globals}.items():
            if inspect.ismodule(value):
                load = f"importlib.import_module({value.__name__!r})"
                sources.append(f"import importlib\n{name} = {load}")
            elif inspect.isfunction(value) and value.__module__ == one.__module__:
                add(inspect.unwrap(value))
            else:
                values[name] = value
        sources.append(ast.unparse(tree))

    add(function)
    return sources, values


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# Before the threads that deleting needs are ended, which is before `atexit`.
getattr(threading, "_register_atexit", atexit.register)(close)

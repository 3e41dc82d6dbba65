"""Kernels of TPUs save and restore when they are asked: between two cells, within a limit."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from ...backoff import Backoff
from ...cloud import NodeName
from ...concurrency import gather_or_cancel
from ...errors import Reason, TPUError
from ...links import HostName
from ...on_host.agent.protocol import requests
from ...on_host.agent.protocol.records import KernelReport, SessionOutcomeReport
from ..core.core import Core
from ..models import Kernel, Problem, SessionOutcome
from ..models.sessions import COMPUTER
from .index import SessionIndex, missing_variables, session_id

#: Seconds between two looks at a kernel that saves.
_LOOKS = Backoff(0.1, 1.0)
#: Seconds in which a kernel notes a request, also while a cell runs; and in which one that is
#: cancelled ends.
NOTED_SECONDS, CANCEL_SECONDS = 15.0, 10.0
#: Called with the id of a kernel, the bytes that it has written or read, and all.
Moved = Callable[[str, int, int], None]
_ENDED = ("saved", "restored", "set", "empty", "cancelled", "failed")


class KernelSessions:
    def __init__(self, core: Core, index: SessionIndex) -> None:
        self._connections = core.connections
        self._observed = core.observed
        self._index = index

    async def carry_out(
        self,
        name: NodeName,
        kernels: Sequence[Kernel],
        request: dict[str, Any],
        seconds: float,
        log: Callable[[str], None],
        ended: Callable[[], None] = lambda: None,
        moved: Moved = lambda kernel, done, total: None,
    ) -> list[SessionOutcome]:
        """What becomes of each kernel; none is waited for longer than *seconds*. Never raises
        TPUError.

        request: what to ``do``, see `agent.session.requested`. ended: called after each. moved:
        called with the id of a kernel, the bytes that it has written or read, and all.
        """

        async def one(kernel: Kernel) -> SessionOutcome:
            try:
                outcome = await self._ask(name, kernel, request, seconds, moved)
            except TPUError as error:
                outcome = _outcome(kernel, state="failed", problem=Problem.of(error))
            log(outcome_line(outcome))
            ended()
            return outcome

        return await gather_or_cancel([one(kernel) for kernel in kernels])

    async def _ask(
        self,
        name: NodeName,
        kernel: Kernel,
        request: dict[str, Any],
        seconds: float,
        moved: Moved,
    ) -> SessionOutcome:
        loop, id = asyncio.get_running_loop(), uuid.uuid4().hex[:16]
        began = loop.time()
        request = {"id": id, "kernel": kernel.id, **request}
        host = HostName(name, kernel.host)

        async def send(content: dict[str, Any] | None) -> KernelReport:
            ask = requests.AskKernelSessionRequest(id=kernel.id, request=content)
            answer = await self._connections.request_host(host, ask)
            report = answer["kernel"]
            if report is None or report.get("state") == "dead":
                raise TPUError(f"The kernel {kernel.id} has ended.", Reason.NOT_FOUND)
            return report

        await send(request)
        cancelled = False
        try:
            for pause in _LOOKS:
                await asyncio.sleep(pause)
                report = await send(None)
                outcome = report.get("session") or None
                if outcome is None or outcome["id"] != id:
                    if loop.time() - began > min(NOTED_SECONDS, seconds + 1.0):
                        raise _deaf(kernel)
                    continue
                if outcome["state"] in _ENDED:
                    return self._ended(name, kernel, report, outcome, seconds, cancelled=cancelled)
                if outcome.get("total"):
                    moved(kernel.id, outcome.get("done", 0), outcome["total"])
                late = loop.time() - began - seconds
                if late > 0 and not cancelled:
                    cancelled = True
                    await send({"id": id, "do": "cancel"})
                    if outcome["state"] == "waiting":
                        return _outcome(kernel, state="busy", problem=_busy(kernel, seconds))
                if late > CANCEL_SECONDS:
                    return _outcome(kernel, state="failed", problem=_slow(seconds))
        except asyncio.CancelledError:
            with contextlib.suppress(TPUError, TimeoutError):
                async with asyncio.timeout(CANCEL_SECONDS):
                    await send({"id": id, "do": "cancel"})
            raise
        raise AssertionError  # the looks have no end

    def _ended(
        self,
        name: NodeName,
        kernel: Kernel,
        report: KernelReport,
        outcome: SessionOutcomeReport,
        seconds: float,
        *,
        cancelled: bool,
    ) -> SessionOutcome:
        state = outcome["state"]
        if state == "failed":
            why = outcome.get("why", "") or "The kernel does not say why."
            return _outcome(kernel, state="failed", problem=_failed(why))
        if state == "cancelled":
            problem = _slow(seconds) if cancelled else _failed("It was interrupted.")
            return _outcome(kernel, state="failed", problem=problem)
        if state == "empty":
            return _outcome(kernel, state="empty", name=outcome.get("name", ""))
        saved = report.get("saved")
        if state == "saved" and saved is not None:
            self._index.note_saved(name, kernel, saved)
        place, node = outcome.get("place", ""), self._observed.node(name)
        title = outcome.get("name", "")
        session = session_id(name, node.id if node else "", kernel.host, place, title)
        return _outcome(
            kernel,
            state="restored" if state == "restored" else "saved",
            session=session,
            name=title,
            place=place,
            variables=outcome.get("variables", 0),
            size=outcome.get("size", 0),
            new=outcome.get("new", 0),
            missing=missing_variables(outcome.get("missing", ())),
            missing_count=outcome.get("missing_count", 0),
            notes=list(outcome.get("notes", ())),
        )


def outcome_line(outcome: SessionOutcome) -> str:
    """What became of a kernel, for a log."""
    who = outcome.notebook or f"Kernel {outcome.kernel}"
    match outcome.state:
        case "saved":
            where = f"in {outcome.place}" if outcome.place else "on the disk of the host"
            where = "on this computer" if outcome.place == COMPUTER else where
            text = f"{who}: saved {outcome.variables} variables as {outcome.name} {where}"
        case "restored":
            text = f"{who}: restored {outcome.variables} variables of {outcome.name}"
        case "empty":
            text = f"{who}: there are no variables to save"
        case _:
            why = outcome.problem.message if outcome.problem is not None else ""
            text = f"{who}: not saved. {why}" if outcome.state == "busy" else f"{who}: {why}"
    if outcome.missing:
        names = ", ".join(f"{one.name} ({one.why})" for one in outcome.missing[:5])
        more = outcome.missing_count - min(5, len(outcome.missing))
        text += f". Without: {names}{f' and {more} more' if more > 0 else ''}"
    return " ".join([text, *outcome.notes])


def _outcome(kernel: Kernel, **fields: Any) -> SessionOutcome:
    return SessionOutcome(kernel=kernel.id, notebook=kernel.notebook, host=kernel.host, **fields)


def _failed(why: str) -> Problem:
    return Problem(message=why, reason=Reason.CONFLICT, hint="")


def _busy(kernel: Kernel, seconds: float) -> Problem:
    who = kernel.notebook or kernel.id
    return Problem(
        message=f"{who} was busy with a cell for {seconds:.0f} s.",
        reason=Reason.CONFLICT,
        hint="Interrupt the cell, or wait for its end, and save it again.",
    )


def _slow(seconds: float) -> Problem:
    return Problem(
        message=f"It did not end within {seconds:.0f} s. The previous session is still there.",
        reason=Reason.TIMEOUT,
        hint="Try again with more time.",
    )


def _deaf(kernel: Kernel) -> TPUError:
    return TPUError(
        f"{kernel.notebook or kernel.id} does not answer.",
        Reason.UNAVAILABLE,
        "If it was started by an older version of jupyter-tpu, run %tpu session save in it.",
    )

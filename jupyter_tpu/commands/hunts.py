"""Hunts in words: what is tried, how each attempt ended, and when the next one begins."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ..errors import duration
from .costs import hourly
from .grammar import program
from .tables import problem_text, state_text, table
from .times import local_time

if TYPE_CHECKING:
    from ..fleet.models import Hunt, HuntCandidate

#: Of a hunt in the queue.
QUEUED = "Attempts in the queue are queued resources. They continue while this computer is off."


def hunt_table(hunts: Sequence[Hunt]) -> str:
    if not hunts:
        start = f"{program()} hunt start my-tpu --type TYPE --zone ZONE --zone ZONE"
        return f"No hunts. Start one: {start}"
    rows = [
        (
            hunt.name,
            state_text(hunt.state),
            hunt.zone,
            str(hunt.attempted),
            local_time(hunt.created),
            hunt.message if hunt.waiting else next_text(hunt) or _last_problem(hunt),
            hunt.id,
        )
        for hunt in hunts
    ]
    return table(("NAME", "STATE", "ZONE", "ATTEMPTS", "STARTED", "MESSAGE", "ID"), rows)


def describe_hunt(hunt: Hunt) -> str:
    """All that is known of one."""
    lines = [f"{hunt.name}  {hunt.state}{f' in {hunt.zone}' if hunt.zone else ''}"]
    if hunt.state == "paused":
        lines.append("No Jupyter server runs. The next one continues this hunt.")
    if hunt.problem is not None:
        lines.append(problem_text(hunt.problem))
    if hunt.request.deadline:
        lines.append(f"No attempt begins after {local_time(hunt.request.deadline)}.")
    if hunt.queued:
        lines.append(QUEUED)
    if hunt.waiting:
        lines.append(f"{hunt.message}.")
    lines += ["", candidate_table(hunt.candidates), "", attempt_table(hunt)]
    if ahead := next_text(hunt):
        lines += ["", ahead]
    return "\n".join(lines)


def candidate_table(candidates: Sequence[HuntCandidate]) -> str:
    """Where it looks, with prices."""
    rows = [
        (
            candidate.type,
            candidate.zone,
            f"{candidate.tier}, queued" if candidate.queued else candidate.tier,
            hourly(candidate.cost, candidate.tier),
            str(candidate.attempts) if candidate.attempts else "",
            f"not tried: {problem_text(candidate.problem)}" if candidate.ruled_out else "",
        )
        for candidate in candidates
    ]
    return table(("TYPE", "ZONE", "TIER", "PRICE", "ATTEMPTS", ""), rows)


def attempt_table(hunt: Hunt) -> str:
    if not hunt.attempts:
        return "No attempts yet."
    rows = [
        (
            str(attempt.number),
            local_time(attempt.started),
            attempt.type,
            attempt.zone,
            f"{attempt.tier}, queued" if attempt.unattended else attempt.tier,
            state_text(attempt.state),
            attempt.problem.message if attempt.problem else "",
        )
        for attempt in hunt.attempts
    ]
    return table(("ATTEMPT", "STARTED", "TYPE", "ZONE", "TIER", "STATE", "MESSAGE"), rows)


def next_text(hunt: Hunt) -> str:
    """When the next attempt begins; "" if that is not known, or there is none."""
    if not hunt.next_attempt or hunt.state != "running":
        return ""
    seconds = (datetime.fromisoformat(hunt.next_attempt) - datetime.now(UTC)).total_seconds()
    return f"The next attempt begins in {duration(max(seconds, 1))}."


def left_to_server(hunt: Hunt) -> str:
    """Where to look for a hunt that no one waits for."""
    look = f"{program()} hunt describe {hunt.name}"
    return f"The Jupyter server hunts for {hunt.name}; `{look}` shows its attempts."


def _last_problem(hunt: Hunt) -> str:
    return hunt.problem.message if hunt.problem is not None else hunt.message

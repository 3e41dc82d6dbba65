"""``jupyter tpu usage`` and ``%tpu usage``: who has which TPUs, and what they cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..terminal.grammar import command, examples
from ..terminal.parameters import project_option
from ..terminal.printing import list_options, note, print_list
from ..terminal.session import fleet_call
from ..terminal.tables import Styled, problem_text, state_text, table
from ..terminal.times import age
from ..wording import count, phrase

if TYPE_CHECKING:
    from ..fleet.models import OwnerUsage, Usage, UsedTPU


@command(
    "usage", epilog=examples("jupyter tpu usage", "jupyter tpu usage --projects mine,the-team")
)
@click.option(
    "--projects",
    metavar="PROJECT,...",
    help="The projects to look at.  [default: gcloud's]",
)
@project_option
@list_options
def usage(projects: str | None) -> None:
    """Show all TPUs and queued resources, whose they are, and what they cost.

    The most expensive come first, from all zones. Owners are read from labels, and from the SSH
    keys that may log in.
    """
    report = fleet_call(lambda fleet: fleet.usage.show(projects))
    if report.problems and not report.tpus:
        raise report.problems[0].to_error()
    print_list(report, usage_text, "tpus")
    for problem in report.problems:
        note(f"This list may be incomplete: {problem_text(problem)}")


def usage_text(report: Usage) -> str:
    """A table, then what each owner has, then what needs attention."""
    if not report.tpus:
        return f"No TPUs and no queued resources in {', '.join(report.projects)}."
    heads = ("NAME", "PROJECT", "ZONE", "TYPE", "CHIPS", "OWNER", "STATE", "AGE", "PER HOUR",
             "COST SO FAR", "")  # fmt: skip
    spare = ("CHIPS", "AGE", "COST SO FAR")  # the owners' lines have sums
    lines = [table(heads, [_row(tpu, report) for tpu in report.tpus], spare)]
    lines += [_owner_line(owner, report.chips) for owner in report.owners]
    lines += [f"{tpu.name}: {tpu.advice}" for tpu in report.tpus if tpu.holds == "quota"]
    lines += [
        f"{tpu.name}: It has been READY for hours, and is not connected here. Connect it, or stop "
        "or delete it."
        for tpu in report.tpus
        if tpu.forgotten
    ]
    return "\n".join(lines)


def _row(used: UsedTPU, report: Usage) -> tuple[str | Styled, ...]:
    from ..catalog import usd

    cost = used.cost
    charged = used.kind == "tpu" and not report.emulated
    return (
        used.name,
        used.project if len(report.projects) > 1 else "",
        used.zone,
        used.type,
        str(used.chips) if used.chips else "",
        _owner(used),
        state_text(used.state),
        age(used.created),
        "" if not charged else "not known" if cost.usd_per_hour is None else usd(cost.usd_per_hour),
        "" if not charged else "not known" if cost.usd is None else f"about {usd(cost.usd)}",
        _mark(used, report),
    )


def _mark(used: UsedTPU, report: Usage) -> str:
    if used.kind == "queued":
        return "queued"
    if used.connected:
        return "connected"
    return "forgotten?" if used.forgotten else "emulated" if report.emulated else ""


def _owner(used: UsedTPU) -> str:
    if used.mine:
        return "you"
    by_key = " (SSH key)" if used.owner_source == "ssh-keys" else ""
    return f"{used.owner}{by_key}" if used.owner else "not known"


def _owner_line(owner: OwnerUsage, chips: int) -> str:
    """ "ana: 32 of 64 chips · 2 TPUs · about $19.20 an hour · about $60.00 so far" """
    from ..catalog import usd

    parts = [phrase(f"{owner.chips} of {count(chips, 'chip')}")]
    if not owner.chips:
        parts = [phrase("no chips")]
    if owner.tpus:
        parts.append(count(owner.tpus, "TPU"))
    if owner.usd_per_hour:
        parts.append(phrase(f"about {usd(owner.usd_per_hour)} an hour"))
    if owner.usd:
        parts.append(phrase(f"about {usd(owner.usd)} so far"))
    if owner.unpriced:
        parts.append(phrase(f"{owner.unpriced} without a known price"))
    if owner.blocked_chips:
        blocked = count(owner.blocked_chips, "chip")
        parts.append(phrase(f"preempted TPUs and failed queued resources use quota for {blocked}"))
    line = " · ".join(parts)
    if owner.mine:
        return f"Your TPUs: {line}"
    return f"{owner.owner}: {line}" if owner.owner else f"Unknown owners: {line}"

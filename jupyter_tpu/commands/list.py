"""``jupyter tpu list`` and ``%tpu list``."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..terminal.grammar import command, examples
from ..terminal.parameters import complete_zone, project_option
from ..terminal.printing import current_format, list_options, list_text, note
from ..terminal.session import FleetSession, open_session
from ..terminal.tables import problem_text, status_problems, tpu_table
from ..terminal.watching import watch as watch_changes
from ..terminal.watching import watch_option
from ..wording import count

if TYPE_CHECKING:
    from ..fleet.models import Hunt, TPUList

#: Values of --zone; "-" means all for gcloud, too.
_ALL_ZONES = (None, "-")


@command(
    "list",
    epilog=examples(
        "jupyter tpu list --watch",
        "jupyter tpu list --filter 'state=READY AND zone:us-*' --sort-by ~cost.usd_per_hour",
        "jupyter tpu list --format 'value(name,hosts[0].external_address)'",
    ),
)
@click.option(
    "--zone",
    metavar="ZONE",
    shell_complete=complete_zone,
    help="Only the TPUs in this zone.  [default: all zones]",
)
@watch_option
@project_option
@list_options
def list_tpus(zone: str | None, watch: bool) -> None:
    """List the project's TPUs.

    A narrow terminal shows fewer columns.
    """
    with open_session() as session:
        if watch:
            looks = itertools.count()

            def look() -> str:
                # A server asks Google itself; but what there is already is shown at once.
                fresh = session.server is None or next(looks) == 0
                listed = _in_zone(_listed(session, fresh=fresh), zone)
                return _text(listed, zone, session.call(session.fleet.hunts.list()))

            watch_changes(session, look, lambda: False)
            return
        tpu_list = _in_zone(_listed(session, fresh=True), zone)
        hunts = session.call(session.fleet.hunts.list())
        status = session.call(session.fleet.status())
    if tpu_list.problem is not None and not tpu_list.tpus:
        raise tpu_list.problem.to_error()
    if text := _text(tpu_list, zone, hunts):
        print(text)
    if tpu_list.problem is not None:
        note(f"This list may be incomplete: {problem_text(tpu_list.problem)}")
    for line in status_problems(status):
        note(line)


def _text(listed: TPUList, zone: str | None, hunts: Sequence[Hunt]) -> str:
    """In a text for people, the hunts are below the table: their TPUs do not exist yet."""
    if current_format().name != "text":
        return list_text(listed, tpu_table, "tpus")
    if zone not in _ALL_ZONES:
        return list_text(listed, tpu_table, "tpus") if listed.tpus else f"No TPUs in {zone}."
    lines = list(filter(None, map(_hunt_line, hunts)))
    if listed.tpus or not lines:
        lines.insert(0, list_text(listed, tpu_table, "tpus"))
    return "\n".join(lines)


def _hunt_line(hunt: Hunt) -> str:
    if hunt.state == "paused":
        return (
            f"The hunt for {hunt.name} is paused, since no Jupyter server runs. "
            "Start `jupyter lab`, which continues it."
        )
    if hunt.state != "running" or hunt.waiting:
        return ""
    return (
        f"Looking for capacity for {hunt.name}: {count(hunt.attempted, 'attempt')} so far. "
        "`jupyter tpu hunt list` shows more."
    )


def _listed(session: FleetSession, *, fresh: bool) -> TPUList:
    from ..fleet.models import ListQuery

    return session.call(session.fleet.tpus(ListQuery(fresh=fresh)))


def _in_zone(listed: TPUList, zone: str | None) -> TPUList:
    if zone in _ALL_ZONES:
        return listed
    from msgspec import structs

    return structs.replace(listed, tpus=[tpu for tpu in listed.tpus if tpu.zone == zone])

"""``jupyter tpu list`` and ``%tpu list``."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import click

from .grammar import command, examples
from .parameters import complete_zone, project_option
from .printing import current_format, list_options, list_text, note
from .session import Session, open_session
from .tables import problem_text, status_problems, tpu_table
from .watching import watch as watch_changes
from .watching import watch_option

if TYPE_CHECKING:
    from ..fleet.models import TPUList

#: Of --zone; "-" means all for gcloud, too.
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
                return _text(_in_zone(_listed(session, fresh=fresh), zone), zone)

            watch_changes(session, look, lambda: False)
            return
        tpu_list = _in_zone(_listed(session, fresh=True), zone)
        status = session.call(session.fleet.status())
    if tpu_list.problem is not None and not tpu_list.tpus:
        raise tpu_list.problem.to_error()
    if text := _text(tpu_list, zone):
        print(text)
    if tpu_list.problem is not None:
        note(f"This list may be incomplete: {problem_text(tpu_list.problem)}")
    for line in status_problems(status):
        note(line)


def _text(listed: TPUList, zone: str | None) -> str:
    if zone not in _ALL_ZONES and not listed.tpus and current_format().name == "text":
        return f"No TPUs in {zone}."
    return list_text(listed, tpu_table, "tpus")


def _listed(session: Session, *, fresh: bool) -> TPUList:
    from ..fleet.models import ListQuery

    return session.call(session.fleet.tpus(ListQuery(fresh=fresh)))


def _in_zone(listed: TPUList, zone: str | None) -> TPUList:
    if zone in _ALL_ZONES:
        return listed
    from msgspec import structs

    return structs.replace(listed, tpus=[tpu for tpu in listed.tpus if tpu.zone == zone])

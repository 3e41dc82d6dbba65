"""``jupyter tpu delete``: TPUs and everything on their disks."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from ..terminal.field_options import options_of
from ..terminal.grammar import command, examples
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option
from ..terminal.questions import confirm, confirm_name_option, confirmed_names, yes_option
from ..terminal.session import open_session, tpu_ref
from ..terminal.tables import type_text
from ..terminal.waiting import no_wait_option
from .losses import consequences_of, lost
from .several_tpus import SEVERAL, find_tpus, run_on_each

if TYPE_CHECKING:
    from ..fleet.models import TPU, Operation


@command(
    "delete",
    epilog=examples("jupyter tpu delete my-tpu", SEVERAL.format("delete") + " --quiet"),
)
@tpu_argument(several=True)
@yes_option("Delete them, and end the kernels and jobs that run there, without asking.")
@confirm_name_option
@options_of("DeleteTPU", "sessions")
@no_wait_option
@json_option
def delete(
    names: Sequence[str],
    yes: bool,
    confirmed: tuple[str, ...],
    fields: dict[str, Any],
    no_wait: bool,
    as_json: bool,
) -> None:
    """Delete TPUs and everything on their disks."""
    from ..fleet.models import DeleteTPU

    with open_session() as session:
        tpus = find_tpus(session, names, "deleted")
        if not yes:
            ends = consequences_of(session, "delete", tpus)
            which = ", ".join(f"{tpu.name} ({type_text(tpu)}, in {tpu.zone})" for tpu in tpus)
            confirm(f"Delete {which}? {lost(ends)}", "Add --yes to delete without asking.")
        typed = confirmed_names(tpus, confirmed)

        def begin(tpu: TPU) -> Coroutine[Any, Any, Operation]:
            name = tpu.name if tpu.name in typed else ""
            options = DeleteTPU(end_kernels=True, end_jobs=True, confirm_name=name, **fields)
            return session.fleet.delete(tpu_ref(tpu), options)

        run_on_each(session, tpus, begin, "Deleted {}.", no_wait, as_json, stays=False)

"""``jupyter tpu delete``: TPUs and everything on their disks."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from ..terminal.grammar import command, examples
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option
from ..terminal.questions import confirm, confirm_name_option, confirmed_names, yes_option
from ..terminal.session import open_session, tpu_ref
from ..terminal.tables import type_text
from ..terminal.waiting import no_wait_option
from .losses import losses, running_on
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
@no_wait_option
@json_option
def delete(
    names: Sequence[str], yes: bool, confirmed: tuple[str, ...], no_wait: bool, as_json: bool
) -> None:
    """Delete TPUs and everything on their disks."""
    from ..fleet.models import DeleteTPU

    with open_session() as session:
        tpus = find_tpus(session, names, "deleted")
        if not yes:
            ends = losses([*running_on(session, tpus).values()])
            which = ", ".join(f"{tpu.name} ({type_text(tpu)}, in {tpu.zone})" for tpu in tpus)
            one = len(tpus) == 1
            confirm(
                f"Delete {which} and everything on {'its disk' if one else 'their disks'}?{ends}"
                f"{_queued(tpus)}",
                "Add --yes to delete without asking.",
            )
        typed = confirmed_names(tpus, confirmed)

        def begin(tpu: TPU) -> Coroutine[Any, Any, Operation]:
            name = tpu.name if tpu.name in typed else ""
            options = DeleteTPU(end_kernels=True, end_jobs=True, confirm_name=name)
            return session.fleet.delete(tpu_ref(tpu), options)

        run_on_each(session, tpus, begin, "Deleted {}.", no_wait, as_json, stays=False)


def _queued(tpus: Sequence[TPU]) -> str:
    """What else may be deleted at Google: "" or a sentence."""
    names = {tpu.queued: None for tpu in tpus if tpu.queued and not tpu.not_yours}
    if not names:
        return ""
    listed = ", ".join(names)
    if len(names) == 1:
        return f" This deletes the queued resource {listed}, too, if it is yours."
    return f" This deletes the queued resources {listed}, too, if they are yours."

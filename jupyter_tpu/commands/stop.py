"""``jupyter tpu stop``: TPUs are stopped; their disks are kept."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from ..terminal.field_options import options_of
from ..terminal.grammar import command, examples
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option
from ..terminal.questions import confirm_name_option, confirmed_names, yes_option
from ..terminal.session import open_session, tpu_ref
from ..terminal.waiting import no_wait_option
from .losses import may_end
from .several_tpus import SEVERAL, confirm_ends, find_tpus, run_on_each

if TYPE_CHECKING:
    from ..fleet.models import TPU, Operation


@command("stop", epilog=examples(SEVERAL.format("stop")))
@tpu_argument(several=True)
@yes_option("End the kernels and jobs that run there without asking.")
@confirm_name_option
@options_of("StopTPU", "sessions")
@no_wait_option
@json_option
def stop(
    names: Sequence[str],
    yes: bool,
    confirmed: tuple[str, ...],
    fields: dict[str, Any],
    no_wait: bool,
    as_json: bool,
) -> None:
    """Stop TPUs. Their disks are kept."""
    from ..fleet.models import StopTPU

    with open_session() as session:
        tpus = find_tpus(session, names, "stopped")
        ends = confirm_ends(session, "stop", tpus, yes)
        typed = confirmed_names(tpus, confirmed)

        def begin(tpu: TPU) -> Coroutine[Any, Any, Operation]:
            name = tpu.name if tpu.name in typed else ""
            options = StopTPU(**may_end(ends[tpu_ref(tpu)], yes), confirm_name=name, **fields)
            return session.fleet.stop(tpu_ref(tpu), options)

        run_on_each(session, tpus, begin, "Stopped {}. Its disk is kept.", no_wait, as_json)

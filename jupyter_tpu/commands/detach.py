"""``jupyter tpu detach``: attached machines are forgotten."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from ..terminal.grammar import command, examples
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option
from ..terminal.questions import yes_option
from ..terminal.session import open_session, tpu_ref
from ..terminal.waiting import no_wait_option
from .losses import may_end
from .several_tpus import confirm_ends, find_tpus, run_on_each

if TYPE_CHECKING:
    from ..fleet.models import TPU, Operation


@command("detach", epilog=examples("jupyter tpu detach my-box"))
@tpu_argument(several=True)
@yes_option("End the kernels and jobs that run there without asking.")
@no_wait_option
@json_option
def detach(names: Sequence[str], yes: bool, no_wait: bool, as_json: bool) -> None:
    """Stop what runs on attached machines, and forget them. Their files stay."""
    from ..fleet.models import DetachMachine

    with open_session() as session:
        tpus = find_tpus(session, names)
        ends = confirm_ends(session, "detach", tpus, yes)

        def begin(tpu: TPU) -> Coroutine[Any, Any, Operation]:
            options = DetachMachine(**may_end(ends[tpu_ref(tpu)], yes))
            return session.fleet.attached.detach(tpu_ref(tpu), options)

        run_on_each(
            session, tpus, begin, "Detached {}. Its files stay.", no_wait, as_json, stays=False
        )

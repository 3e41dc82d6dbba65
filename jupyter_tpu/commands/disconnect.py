"""``jupyter tpu disconnect``: a TPU's kernels leave Jupyter."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from ..terminal.grammar import command, examples
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option, note
from ..terminal.questions import yes_option
from ..terminal.session import open_session, tpu_ref
from ..terminal.waiting import no_wait_option
from .several_tpus import SEVERAL, confirm_ends, find_tpus, run_on_each

if TYPE_CHECKING:
    from ..fleet.models import TPU, Operation


@command("disconnect", epilog=examples(SEVERAL.format("disconnect")))
@tpu_argument(several=True)
@yes_option("Shut down the kernels that run there without asking.")
@no_wait_option
@json_option
def disconnect(names: Sequence[str], yes: bool, no_wait: bool, as_json: bool) -> None:
    """Remove the kernels of TPUs from Jupyter. Environments stay on the hosts; jobs continue."""
    from ..fleet.models import DisconnectTPU

    with open_session() as session:
        tpus = find_tpus(session, names)
        ends = confirm_ends(session, "disconnect", tpus, yes)
        no_wait = no_wait and session.server is not None  # alone it takes no time worth leaving

        def begin(tpu: TPU) -> Coroutine[Any, Any, Operation]:
            options = DisconnectTPU(end_kernels=yes or bool(ends[tpu_ref(tpu)].kernels))
            return session.fleet.disconnect(tpu_ref(tpu), options)

        for tpu in tpus:
            for job in ends[tpu_ref(tpu)].jobs:
                note(f"The job {job.name} ({job.id}) continues on {tpu.name}.")
        done = "Disconnected {}. Its environments stay on its hosts."
        run_on_each(session, tpus, begin, done, no_wait, as_json)

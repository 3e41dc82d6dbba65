"""What ends with TPUs, as their server says it, for the question before that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import TPUError
from ..terminal.printing import note
from ..terminal.session import FleetSession, tpu_ref

if TYPE_CHECKING:
    from ..fleet.models import TPU, Consequences, Kernel
    from ..fleet.models.consequences import Act


def consequences_of(
    session: FleetSession, act: Act, tpus: Sequence[TPU]
) -> dict[str, Consequences]:
    """What *act* ends on each TPU, by its reference."""
    from ..fleet.models import ConsequencesQuery

    query = ConsequencesQuery(act=act)
    return {ref: session.call(session.fleet.consequences(ref, query)) for ref in map(tpu_ref, tpus)}


def lost(ends: dict[str, Consequences]) -> str:
    """What that means, in sentences."""
    return " ".join(line for consequences in ends.values() for line in consequences.sentences())


def may_end(consequences: Consequences, yes: bool) -> dict[str, Any]:
    """The fields of a request that say what may end: all with --yes, else what was shown."""
    return {
        "end_kernels": yes or bool(consequences.kernels),
        "end_jobs": yes or bool(consequences.jobs),
    }


def kernels_now(session: FleetSession, ref: str) -> Sequence[Kernel]:
    """The kernels of a TPU, as its hosts answer now; raises TPUError if they don't."""
    from ..fleet.models import ListQuery

    return session.call(session.fleet.kernels.list(ref, ListQuery(fresh=True)))


def running_kernels(session: FleetSession, tpu: TPU) -> Sequence[Kernel]:
    """The kernels running there; none if they can't be listed now."""
    if not tpu.kernels and tpu.connection.value == "disconnected":
        return []
    try:
        return kernels_now(session, tpu_ref(tpu))
    except TPUError as error:
        note(f"Can't list the kernels on {tpu.name}: {error.message}")
        return []


def session_hint(name: str) -> str:
    """How the variables of kernels outlive a TPU that may end at any time."""
    return (
        f"To keep the variables of kernels when {name} ends: "
        f"jupyter tpu session auto {name} --in gs://BUCKET/FOLDER"
    )

"""``%tpu session restore NAME --from TPU``: a session of a TPU in a notebook on this computer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput, Reason, TPUError
from ..terminal.session import open_session

if TYPE_CHECKING:
    from ..fleet.models import Session


def restore_here(namespace: dict[str, Any], name: str, tpu: str, *, overwrite: bool) -> str:
    """Puts what needs no unpickling into *namespace*; returns what is printed."""
    from ..fleet.models.sessions import COMPUTER
    from ..fleet.sessions.reading import read_session
    from ..on_host.agent.session.command import restored_text
    from ..on_host.agent.session.save import SessionReport

    with open_session() as session:
        known = session.call(session.fleet.sessions.all())
    here = [one for one in known if one.place == COMPUTER and one.name == name and _is_of(one, tpu)]
    if not here:
        raise TPUError(
            f"The session {name} of {tpu} is not on this computer.",
            Reason.NOT_FOUND,
            f"Copy it here: jupyter tpu session save {tpu} --in computer",
        )
    read = read_session(max(here, key=lambda one: one.saved))
    present = sorted(variable for variable in read.values if variable in namespace)
    if present and not overwrite:
        some = ", ".join(present[:5]) + (" and others" if len(present) > 5 else "")
        raise InvalidInput(
            f"This notebook has variables of the same names: {some}.",
            "To replace them, add --overwrite.",
        )
    namespace.update(read.values)
    report = SessionReport(
        list(read.values),
        read.reasons,
        ["JAX arrays are NumPy arrays here."] if read.values else [],
        saved=read.saved,
        source=read.about,
    )
    return str(restored_text(report))


def _is_of(session: Session, tpu: str) -> bool:
    return tpu in (session.tpu, f"{session.zone}~{session.tpu}", f"{session.zone}/{session.tpu}")

"""``%tpu profile``: a trace of a TPU, and what fills the memory of its devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..commands.profiles import memory_text, traced_line, untraced_lines
from ..commands.session import open_session
from ..errors import Reason, TPUError
from .show import wait_for

if TYPE_CHECKING:
    from ..fleet.models import MemoryQuery, ProfileTPU


def show_memory(name: str, query: MemoryQuery) -> None:
    with open_session() as session:
        print(memory_text(session.call(session.fleet.profiles.memory(name, query))))


def show_trace(name: str, request: ProfileTPU) -> None:
    import msgspec

    from ..fleet.models import Profile

    with open_session() as session:
        if session.server is None:
            raise TPUError(
                "TensorBoard needs a running Jupyter server with the jupyter-tpu extension.",
                Reason.CONFLICT,
                f"In a terminal: jupyter tpu profile {name}",
            )
        operation = session.call(session.fleet.profiles.start(name, request))
        wait_for(session, operation)
        ended = session.call(session.fleet.operations.get(operation.id))
        profile = msgspec.convert(ended.result, Profile)
        print("\n".join([traced_line(profile), *untraced_lines(profile)]))
        visit = session.call(session.fleet.apps.visit(ended.app))
        print(f"TensorBoard is in the TPU panel, or for 30 seconds here: {visit.url}")

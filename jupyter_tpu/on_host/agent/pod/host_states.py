"""What each host of a pod kernel does: told by the conductor in a file, reported by its keeper."""

from __future__ import annotations

import contextlib
import json
import os
from typing import List

from ..keeper.kernel_process import HOSTS
from .pod_state import STARTING, PodState


def host_states(state: PodState) -> List[str]:
    """The state of each host: "starting"; "idle"; "busy"; "waiting": it has ended the cell, and
    others have not; "stuck": it does not react to interrupts; "dead".
    """
    states = []
    for host in range(state.hosts):
        if host in state.dead:
            states.append("dead")
        elif host in state.stuck:
            states.append("stuck")
        elif state.phase == STARTING:
            states.append("starting")
        elif not state.busy:
            states.append("idle")
        else:
            states.append("busy" if host in state.busy else "waiting")
    return states


class HostStatesFile:
    """The file in the kernel's *folder*, which the keeper reads."""

    def __init__(self, folder: str) -> None:
        self._path = os.path.join(folder, HOSTS)
        self._written: List[str] = []
        self._seen: List[str] = []

    def write(self, states: List[str]) -> None:
        """Writes them if they have changed, and are the same as at the last call: a cell that is
        over at once is not worth a wait for the disk. Without space there nobody sees the change.
        """
        lasts, self._seen = states == self._seen, states
        if lasts and states != self._written:
            with contextlib.suppress(OSError):
                with open(self._path + ".new", "w") as file:
                    json.dump({"hosts": states}, file)
                os.replace(self._path + ".new", self._path)
                self._written = states

"""What a host knows of a job, in a file, which outlives the keeper and the host's next start."""

from __future__ import annotations

import os
from typing import Any, Dict, Optional

from ..protocol.json_file import read_json, write_json

#: ``state`` is one of these. "lost": the command ended, and its end was not seen.
RUNNING, STOPPING, ENDED, LOST = "running", "stopping", "ended", "lost"
#: States in which nothing changes any more.
FINAL = (ENDED, LOST)
_NAME = "state.json"


def read_state(folder: str) -> Optional[Dict[str, Any]]:
    """The state of the job in *folder*; None if there is none."""
    return read_json(os.path.join(folder, _NAME))


def write_state(folder: str, state: Dict[str, Any]) -> None:
    """Replaces the state; raises OSError."""
    write_json(os.path.join(folder, _NAME), state)

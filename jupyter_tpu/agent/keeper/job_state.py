"""What a host knows of a job, in a file, which outlives the keeper and the host's next start."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Dict, Optional

#: ``state`` is one of these. "lost": the command ended, and its end was not seen.
RUNNING, STOPPING, ENDED, LOST = "running", "stopping", "ended", "lost"
#: States in which nothing changes any more.
FINAL = (ENDED, LOST)
_NAME = "state.json"


def read_state(folder: str) -> Optional[Dict[str, Any]]:
    """The state of the job in *folder*; None if there is none."""
    try:
        with open(os.path.join(folder, _NAME)) as file:
            found = json.load(file)
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def write_state(folder: str, state: Dict[str, Any]) -> None:
    """Replaces the state; raises OSError."""
    path = os.path.join(folder, _NAME)
    try:
        with open(path + ".new", "w") as file:
            json.dump(state, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(path + ".new", path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(path + ".new")
        raise

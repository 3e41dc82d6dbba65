"""Which pod kernels have a part on this host: the daemon here did not start it, and names it to
whoever asks what holds the chips.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Dict, List

from ..protocol.paths import run_folder
from ..protocol.processes import start_time

#: The folders of `member`, below the agent's, and a file in each.
PREFIX, _FILE = "p-", "pod-kernel.json"


def record_presence(folder: str, kernel: str, notebook: str) -> None:
    """Notes in a member's *folder* to which kernel this process belongs. On a full disk nothing is
    noted.
    """
    pid = os.getpid()
    content = {"pid": pid, "start": start_time(pid), "kernel": kernel, "notebook": notebook}
    with contextlib.suppress(OSError), open(os.path.join(folder, _FILE), "w") as file:
        json.dump(content, file)


def members_here() -> List[Dict[str, Any]]:
    """``pid``, ``kernel`` (an id) and ``notebook`` of each that runs."""
    top, members = run_folder(), []
    for name in os.listdir(top) if os.path.isdir(top) else ():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if not name.startswith(PREFIX):
                continue
            with open(os.path.join(top, name, _FILE)) as file:
                member = json.load(file)
            if member["start"] == start_time(int(member["pid"])):
                members.append(member)
    return members

"""The pod kernels that run on this host, too. The daemon here did not start them; it names them
when somebody asks what holds the chips. A pod kernel that is left from an earlier start, and has
lost its conductor, is ended by the next start.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
from typing import Any, Dict, List

from ..keeper.owned_process import kill_leftovers
from ..protocol.paths import run_folder
from ..protocol.processes import signal_process, start_time

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
    """``pid``, ``kernel`` (an id), ``notebook`` and ``folder`` of each that runs."""
    top, members = run_folder(), []
    for name in os.listdir(top) if os.path.isdir(top) else ():
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if not name.startswith(PREFIX):
                continue
            with open(os.path.join(top, name, _FILE)) as file:
                member = json.load(file)
            if member["start"] == start_time(int(member["pid"])):
                members.append({**member, "folder": os.path.join(top, name)})
    return members


def end_earlier(kernel: str) -> None:
    """Ends what is left on this host of earlier starts of the same kernel. The connection to it may
    be dead, which it has not noticed yet: then it would have the chips for many minutes.
    """
    for member in members_here():
        if member["kernel"] == kernel and member["pid"] != os.getpid():
            signal_process(int(member["pid"]), str(member["start"]), signal.SIGKILL)
            kill_leftovers(member["folder"])
            shutil.rmtree(member["folder"], ignore_errors=True)

"""Saves, restores or deletes home folders: what runs in an environment, which has TensorStore.

Reads the setting on standard input, with what to ``do``; prints lines of JSON: ``progress``, then
the ``outcome``.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import time
from typing import Any, Dict

from ..session.storage import SessionError
from . import state
from .transfer import Setting, forget, restore, save

#: Seconds to wait for another save or restore of this host, and between two words of progress.
_LOCK_SECONDS, _SAY_SECONDS = 300.0, 0.3


def main() -> int:
    request = json.load(sys.stdin)
    try:
        with open(state.home_path(state.LOCK), "a") as lock:
            _acquire(lock)
            outcome = _carry_out(request)
    except SessionError as error:
        outcome = {"state": "failed", "why": str(error)}
    except ModuleNotFoundError as error:
        why = "The environment does not have the package %s." % error.name
        outcome = {"state": "failed", "why": why}
    except OSError as error:
        outcome = {"state": "failed", "why": "On the host: %s." % error}
    _say({"outcome": outcome})
    return 0


def _acquire(lock: Any) -> None:
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise SessionError("The home folders are being saved or restored.") from None
        time.sleep(0.1)


def _carry_out(request: Setting) -> Dict[str, Any]:
    home, said = os.path.expanduser("~"), [0.0]

    def progress(done: int, total: int) -> None:
        now = time.monotonic()
        if now - said[0] > _SAY_SECONDS or done == total:
            said[0] = now
            _say({"progress": [done, total]})

    if request["do"] == "save":
        return save(home, request, progress)
    if request["do"] == "forget":
        return forget(request)
    return restore(home, request, progress, again=request["do"] == "restore")


def _say(line: Dict[str, Any]) -> None:
    print(json.dumps(line), flush=True)

"""Ends what a host without namespaces has started: a small program of its own, next to the
emulator.

    python reaper.py MARK

It waits for the end of its standard input, which comes when the emulator closes it or dies in any
way, and then kills every process that has MARK among its variables, daemons too. The standard
library only; needs /proc.
"""

from __future__ import annotations

import os
import signal
import sys
import time

_END_SECONDS = 10.0


def marked(mark: str) -> list[int]:
    """The processes of this user whose variables have *mark* (``NAME=value``), but this one."""
    pids = []
    marker = mark.encode()
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                if marker in file.read().split(b"\0"):
                    pids.append(int(entry))
        except OSError:  # another user's, or just ended
            continue
    return pids


def sweep(mark: str) -> bool:
    """Kills them until none is left; False if some are after ten seconds."""
    deadline = time.monotonic() + _END_SECONDS
    quiet = 0
    while quiet < 3:  # a process between two programs shows no variables for a moment
        pids = marked(mark)
        quiet = 0 if pids else quiet + 1
        if time.monotonic() > deadline:
            return False
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.01)
    return True


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.stdin.buffer.read()
    sys.exit(0 if sweep(sys.argv[1]) else 1)

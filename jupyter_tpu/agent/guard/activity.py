"""Which processes keep a host busy, from /proc, so of all users and containers.

What a kernel or a job does is known from its keeper. The rest is seen here: terminals of people,
the load of the chips, and the use of the processors.
"""

from __future__ import annotations

import os
import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

#: Processors in use on average from which a host counts as busy; its own services use less.
PROCESSORS = 0.5
#: Percent of its time from which a chip counts as busy.
DUTY = 5.0
#: How sshd calls a process that serves a terminal; "@notty" are programs, such as our links.
_TERMINAL = re.compile(rb"sshd(?:-session)?: ([^@\s]+)@pts/\d+")

#: Processor time by process (pid and start), in ticks.
Times = Dict[Tuple[str, bytes], int]


def terminals(proc: str = "/proc") -> List[str]:
    """The users who have a terminal over SSH."""
    users = set()
    for pid in filter(str.isdigit, os.listdir(proc)):
        title = _TERMINAL.match(_content(proc, pid, "cmdline"))
        if title is not None:
            users.add(title.group(1).decode("utf-8", "replace"))
    return sorted(users)


def processor_times(proc: str = "/proc") -> Times:
    """Of all processes but this one."""
    times: Times = {}
    own = str(os.getpid())
    for pid in filter(str.isdigit, os.listdir(proc)):
        fields = _content(proc, pid, "stat").rpartition(b")")[2].split()
        if pid != own and len(fields) > 19:
            times[pid, fields[19]] = int(fields[11]) + int(fields[12])
    return times


def processors_used(before: Times, now: Times, seconds: float) -> Optional[float]:
    """How many processors were used on average; None if that can't be said."""
    if seconds <= 0.0:
        return None
    ticks = sum(max(0, time - before.get(process, 0)) for process, time in now.items())
    return ticks / os.sysconf("SC_CLK_TCK") / seconds


def chips_compute(load: Mapping[str, Any]) -> Optional[bool]:
    """Whether a chip was busy lately, by a sample of `daemon.load.read_sample`; None if that lacks
    the duty cycle of a chip.
    """
    duties = [duty for _, _, duty in load.get("chips", ())]
    if any(duty is not None and duty > DUTY for duty in duties):
        return True
    return False if duties and None not in duties else None


def _content(*path: str) -> bytes:
    try:
        with open(os.path.join(*path), "rb") as file:
            return file.read(4096)
    except OSError:
        return b""  # it has ended

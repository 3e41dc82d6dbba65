"""How much a host is used: its processors, from /proc, so by all users; its chips."""

from __future__ import annotations

import os
from typing import Any, Dict, Mapping, Optional, Tuple

from .processes import content

#: Processors in use on average from which a host counts as busy; its own services use less.
BUSY_PROCESSORS = 0.5
#: Percent of its time from which a chip counts as busy.
BUSY_DUTY_PERCENT = 5.0
#: Processor time by process (pid and start), in ticks.
Times = Dict[Tuple[str, bytes], int]


def processor_times(proc: str = "/proc") -> Times:
    """The processor times of all processes but this one."""
    times: Times = {}
    own = str(os.getpid())
    for pid in filter(str.isdigit, os.listdir(proc)):
        fields = content(proc, pid, "stat").rpartition(b")")[2].split()
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
    if any(duty is not None and duty > BUSY_DUTY_PERCENT for duty in duties):
        return True
    return False if duties and None not in duties else None

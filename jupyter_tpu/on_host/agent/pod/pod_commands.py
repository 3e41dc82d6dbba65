"""The commands of a pod kernel in a cell: `%%host`, `%%hosts` and `%hosts`."""

from __future__ import annotations

import re
from typing import FrozenSet, NamedTuple, Optional

from .direct_requests import DirectRequests
from .host_names import PodSlices, host_ranges, parse_hosts
from .pod_state import OUT_OF_STEP, PodState

_HOSTS = re.compile(r"%%hosts?[ \t]+([^\n]*?)[ \t]*(?:\n|$)")
_SLICE = re.compile(r"%%slice[ \t]+(\d+)[ \t]*(?:\n|$)")
_COMMAND = re.compile(r"\s*%hosts?(?:[ \t]+(\w+(?:[ \t]+[\d.]+)?))?\s*$")
#: `%tpu memory --host 2`, and the like: what runs on hosts in this kernel.
_ONE_HOST = re.compile(r"(\s*%(?:tpu|pip|uv)[ \t][^\n]*?)[ \t]+--host[ \t=]+([\d.,-]+)([^\n]*)\s*$")
_LOCAL = re.compile(r"\s*(?:%%local\b|%tpu[ \t]+(?:push|pull|top|profile)\b)")
_SESSION = re.compile(r"\s*%tpu[ \t]+session\b")
SESSION_USAGE = (
    "A session is saved and restored by all hosts together: use %tpu session in a cell without "
    "%%host, %%hosts and --host."
)
LOCAL_USAGE = (
    "This notebook's kernel is on the TPU, so nothing of it runs on your computer. Choose a kernel "
    "of your computer instead, and run there: %load_ext jupyter_tpu, then %tpu auto on NAME "
    "--all-hosts. Cells then run on all hosts, %%local cells on your computer, and %tpu push, "
    "pull, top and profile work."
)
USAGE = (
    "%%hosts 0,3-5 in the first line of a cell runs it on these hosts only. %hosts shows the "
    "hosts, %hosts check checks whether they are in step, %hosts continue runs cells although "
    "they are not, and %hosts debug 2 chooses the host of the debugger."
)


class Code(NamedTuple):
    """What a cell's code is for the hosts."""

    code: str
    hosts: Optional[FrozenSet[int]]  # None: all
    first_line: int  # of the cell's, from 0


def parse_code(code: str, hosts: int) -> Code:
    """Raises ValueError with a sentence for hosts that there are not, and what they can't do."""
    parsed = _parse(code, hosts)
    if parsed.hosts is not None and _SESSION.match(parsed.code):
        raise ValueError(SESSION_USAGE)
    return parsed


def _parse(code: str, hosts: int) -> Code:
    if _LOCAL.match(code):
        raise ValueError(LOCAL_USAGE)
    command = _ONE_HOST.match(code)
    if command:
        rest = command.group(1) + command.group(3)
        return Code(rest, parse_hosts(command.group(2), hosts), 0)
    whole = _SLICE.match(code)
    if whole:
        number = int(whole.group(1))
        if number >= len(PodSlices.sizes):
            last = len(PodSlices.sizes) - 1
            why = "the slices are 0 to %d" % last if last > 0 else "this kernel has one TPU only"
            raise ValueError("Slice %d does not exist: %s." % (number, why))
        text = "%d.0-%d" % (number, PodSlices.sizes[number] - 1)
        return Code(code[whole.end() :], parse_hosts(text, hosts), 1)
    chosen = _HOSTS.match(code)
    if not chosen:
        return Code(code, None, 0)
    return Code(code[chosen.end() :], parse_hosts(chosen.group(1), hosts), 1)


def command_of(code: str) -> Optional[str]:
    """What is behind `%hosts`: "check", "debug 2", or ""; None if the cell has no such command."""
    command = _COMMAND.match(code)
    return (command.group(1) or "") if command else None


def run_command(word: str, state: PodState, direct: DirectRequests) -> str:
    """Does what `%hosts` says; returns what it prints."""
    command, _, number = word.partition(" ")
    if command == "debug":
        return _debug(number.strip(), state, direct)
    if word == "continue":
        problem = state.proceed()
        if not problem:
            return "Nothing to ignore."
        if not state.able:
            return "No host can run cells: restart the kernel. %s" % problem
        return "Cells run again. Ignored: %s They run on %s." % (problem, host_ranges(state.able))
    if word:
        return USAGE
    lines = ["%s: %s" % (host_ranges(state.living), state.phase)] if state.living else []
    lines += state.dead.values()
    if state.phase == OUT_OF_STEP:
        lines.append("The hosts are out of step. %s" % state.problem)
    if direct.debugged:
        lines.append("The debugger works on %s." % host_ranges([direct.debugged]))
    return "\n".join(lines)


def _debug(text: str, state: PodState, direct: DirectRequests) -> str:
    """Chooses the host of the debugger; without a number it is told."""
    if text:
        try:
            [host] = parse_hosts(text, state.hosts)
        except ValueError as error:
            return str(error)
        if host not in state.able:
            return "The debugger can work on %s." % host_ranges(state.able)
        if host != direct.debugged:
            direct.debugged, direct.stopped = host, None
            return (
                "The debugger works on %s now. If it is on, turn it off and on again. The other "
                "hosts go on, and wait at the next operation of all hosts." % host_ranges([host])
            )
    return "The debugger works on %s." % host_ranges([direct.debugged])

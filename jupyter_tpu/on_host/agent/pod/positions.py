"""Where hosts are in a cell or a job, and whether they stand still at different lines of a cell. No
I/O, no clock.

That is how the commonest hang looks: one host does something else, and the others wait for it in an
operation of all hosts. All of them are busy, and none prints anything.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

from .folding import plain
from .host_names import host_ranges, sentence

#: Looks in a row at which no host has moved, until the cell says where they stand.
STILL_LOOKS = 5


class Position(NamedTuple):
    """Where a host is."""

    text: str  # "line 3: y = f(x) (in _allgather)"
    lines: Tuple[Any, ...]  # of the user's code
    waits: bool  # in an operation of JAX


_UNKNOWN = Position("", (), False)


class Positions:
    """Those in one cell.

    Parameters
    ----------
    hosts: that run it.
    first_line: the line of the cell at which their code begins, from 0.
    """

    def __init__(self, hosts: Sequence[int], first_line: int) -> None:
        self._hosts = hosts
        self._first_line = first_line
        self._positions: Dict[int, Position] = {}
        self._still = 0  # looks at which no host had moved

    def note(self, host: int, frames: Any) -> None:
        """Takes where a host is: *frames* are what `pod_member` answers."""
        position = position_of(frames, self._first_line)
        if not position.text:
            return
        before = self._positions.get(host, position)
        self._positions[host] = position
        if position.lines != before.lines:
            self._still = 0

    def note_progress(self) -> None:
        """A host has printed something, or has ended the cell."""
        self._still = 0

    def standing(self) -> List[str]:
        """To be called after each look. Lines that say where the hosts stand; [] while they move,
        or are all at one place.
        """
        self._still += 1
        if self._still < STILL_LOOKS or not self._positions:
            return []
        groups = self._groups(self._hosts)
        if len({position.lines for position in groups}) < 2:
            return []
        return position_lines(groups)

    def where(self, hosts: Sequence[int], one: str, several: str, *, always: str = "") -> List[str]:
        """A line for each place with hosts: "Host 2 is at line 4: time.sleep(600)".

        Parameters
        ----------
        one, several: "is at", "are at".
        always: "was interrupted", if hosts whose place is not known have a line too.
        """
        lines = []
        for position, at in self._groups(hosts).items():
            if position.text:
                lines.append(_line(at, one, several, position.text))
            elif always:
                lines.append(_line(at, always, always.replace("was ", "were ")))
        return lines

    def _groups(self, hosts: Sequence[int]) -> Dict[Position, List[int]]:
        groups: Dict[Position, List[int]] = {}
        for host in hosts:
            groups.setdefault(self._positions.get(host, _UNKNOWN), []).append(host)
        return groups


def position_lines(groups: Mapping[Position, Sequence[int]]) -> List[str]:
    """A line for each position, with the hosts at it: "Hosts 0-2 wait at line 3: f(x)"."""
    # Who waits comes last, and the many after the few: what the others do explains it.
    ordered = sorted(groups.items(), key=lambda item: (item[0].waits, len(item[1])))
    return [_line(at, *_verbs(position), position.text) for position, at in ordered]


def _verbs(position: Position) -> Tuple[str, str]:
    if not position.text:
        return "does not say where it is", "do not say where they are"
    return ("waits at", "wait at") if position.waits else ("is at", "are at")


def _line(hosts: Sequence[int], one: str, several: str, place: str = "") -> str:
    verb = one if len(hosts) == 1 else several
    return ("%s %s %s" % (sentence(host_ranges(hosts)), verb, place)).rstrip()


def position_of(frames: Any, first_line: int = 0) -> Position:
    """Nothing is known where the host did not tell *frames* as `pod_member` does."""
    try:
        place, *_, inner = frames if len(frames) > 1 else [frames[0], frames[0]]
        line, text = int(place["line"]), plain(str(place["text"]))[:200]
        if place["file"]:
            where = "%s, line %d" % (plain(str(place["file"]).rpartition("/")[2]), line)
        else:
            where = "line %d" % (line + first_line)
        function = plain(str(inner["function"]))[:80]
        same = inner["line"] == place["line"] and inner["file"] == place["file"]
        where += (": %s" % text if text else "") + ("" if same else " (in %s)" % function)
        lines = tuple((str(frame["file"]), int(frame["line"])) for frame in frames[:-1] or frames)
        # A host that compiles is in JAX, too, and waits for nobody.
        waits = "-packages/jax/" in str(inner["file"]) and "compile" not in function
        return Position(where, lines, waits)
    except (KeyError, IndexError, TypeError, ValueError):
        return _UNKNOWN

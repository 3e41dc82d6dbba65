"""Lines of several hosts as one text: numbered, and folded where hosts write the same."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from itertools import islice

from ..fleet.core.host_numbers import host_ranges

#: Seconds that a line waits for the same line of other hosts.
HOLD = 0.5
#: How many lines of a host are looked at for one that others have written, too.
AHEAD = 20
#: A longer line is cut, so that what has no lines is not collected for ever; bytes.
LONGEST = 64 << 10


class FoldedLines:
    """Puts the hosts' numbers before their lines; equal lines of several hosts become one.

    The lines of each host keep their order. What a carriage return has overwritten is left out.

    Parameters
    ----------
    write: called with "stdout" or "stderr" and a line.
    """

    def __init__(self, hosts: Sequence[int], write: Callable[[str, bytes], None]) -> None:
        self._write = write
        self._begun: dict[tuple[int, str], bytearray] = {}  # lines without their end
        self._lines: dict[int, deque[tuple[str, bytes, float]]] = {host: deque() for host in hosts}

    @property
    def holds(self) -> bool:
        """Whether lines wait for those of other hosts: call `flush` again within `HOLD`."""
        return any(self._lines.values())

    def add(self, host: int, stream: str, data: bytes, now: float) -> None:
        """Something that *host* has written; *now*: seconds of any clock."""
        begun = self._begun.setdefault((host, stream), bytearray())
        begun += data
        *lines, rest = begun.split(b"\n")
        if len(rest) > LONGEST:
            lines.append(rest)
            rest = bytearray()
        self._begun[host, stream] = rest
        self._lines[host].extend((stream, _visible(line), now) for line in lines)

    def flush(self, running: Collection[int], now: float) -> None:
        """Writes what need not wait for the *running* hosts any more."""
        while True:
            heads = {host: lines[0] for host, lines in self._lines.items() if lines}
            if not heads:
                return
            if any(host not in heads for host in running):
                oldest = min(heads, key=lambda host: heads[host][2])
                if now - heads[oldest][2] < HOLD:
                    return
                first = heads[oldest][:2]
            else:
                first = self._first(heads)
            same = [host for host in sorted(heads) if heads[host][:2] == first]
            for host in same:
                self._lines[host].popleft()
            stream, line = first
            self._write(stream, b"[%s] %s\n" % (host_ranges(same).encode(), line))

    def _first(self, heads: dict[int, tuple[str, bytes, float]]) -> tuple[str, bytes]:
        """The line to write: one that no host has further behind, so that these meet."""
        lines = list(dict.fromkeys(heads[host][:2] for host in sorted(heads)))
        for line in lines if len(lines) > 1 else ():
            others = (self._lines[host] for host in heads if heads[host][:2] != line)
            behind = (entry[:2] for queue in others for entry in islice(queue, 1, AHEAD))
            if line not in behind:
                return line
        return lines[0]

    def end(self, now: float) -> None:
        """Writes all that is left."""
        for (host, stream), rest in self._begun.items():
            if rest:
                self._lines[host].append((stream, _visible(rest), now))
        self._begun.clear()
        self.flush((), now)


def _visible(line: bytes | bytearray) -> bytes:
    """What a terminal shows of a line in the end."""
    return bytes(line.rstrip(b"\r").rpartition(b"\r")[2])

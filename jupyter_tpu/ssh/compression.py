"""Whether the bytes of a tunnel are worth compressing: events in, a verdict out, no clock.

They are where the line is slow and the data shrink. On a fast line compressing costs 20 times what
encrypting does, and much of what goes through a tunnel is compressed already; so a verdict needs a
transfer that was seen to be slow, and a sample of it that was seen to shrink.
"""

from __future__ import annotations

import zlib

#: Bytes per second below which a line is slow. Compressing alone does 40 MB/s (Debian's sshd), so
#: it is never the limit.
SLOW = 2.5e6
#: Bytes that are looked at together; fewer say nothing about the line.
ENOUGH = 512 << 10
#: Seconds without a byte after which a look begins anew.
GAP = 0.5
#: Bytes that are tried, and what has to be left of them at most, as a share.
SAMPLE = 32 << 10
SHRINKS = 0.7
#: Seconds a verdict holds: what is compressed does not tell how fast the line has become.
HOLDS = 60.0


class CompressionPolicy:
    """Watches one direction of a tunnel. Times are seconds, of any clock that does not jump."""

    def __init__(self) -> None:
        self._until = float("-inf")  # the verdict holds
        self._last = float("-inf")
        self._begin(0.0)

    def _begin(self, now: float) -> None:
        self._begun = now
        self._bytes = 0
        self._sample = bytearray()

    def should_compress(self, now: float) -> bool:
        """Whether a connection that begins now should be compressed."""
        return now < self._until

    def record(self, data: bytes, now: float, *, compressed: bool) -> None:
        """*data* came through, over a connection that is *compressed* or not."""
        if now - self._last > GAP:
            self._begin(now)
        self._last = now
        self._bytes += len(data)
        if len(self._sample) < SAMPLE:
            self._sample += data[: SAMPLE - len(self._sample)]
        if self._bytes >= ENOUGH:
            if not compressed:
                slow = self._bytes < SLOW * (now - self._begun)
                self._until = now + HOLDS if slow and self._shrinks() else float("-inf")
            elif not self._shrinks():
                self._until = float("-inf")
            self._begin(now)

    def _shrinks(self) -> bool:
        return len(zlib.compress(self._sample, 1)) < SHRINKS * len(self._sample)

"""Decides whether the bytes of a tunnel are compressed: a state machine without I/O or clock.

They are if the line is slow and the data can be compressed. On a fast line compression costs 20
times what encryption does, and much of a tunnel's data is compressed already. So the decision needs
a transfer that was seen to be slow, and a sample of it that compresses well.
"""

from __future__ import annotations

import zlib

#: Bytes per second below which a line is slow. Debian's sshd compresses 40 MB/s, so compression is
#: never the limit.
SLOW_BYTES_PER_SECOND = 2.5e6
#: Bytes that are measured together; fewer say nothing about the line.
ENOUGH_BYTES = 512 << 10
#: Seconds without a byte after which a new measurement begins.
GAP_SECONDS = 0.5
#: Bytes of the sample, and the compression ratio that it has to reach.
SAMPLE_BYTES = 32 << 10
COMPRESSED_RATIO = 0.7
#: Seconds for which a decision is valid: compressed transfers don't tell the line's speed.
VALID_SECONDS = 60.0
#: Measurements in a row that have to speak against compression to end it. One may be a burst: what
#: waited on the way while this machine was busy comes at once.
MEASUREMENTS_AGAINST = 2


class CompressionPolicy:
    """Watches one direction of a tunnel. Times are seconds, of any clock that does not jump."""

    def __init__(self) -> None:
        self._until = float("-inf")  # the decision is valid
        self._last = float("-inf")
        self._against = 0
        self._begin(0.0)

    def _begin(self, now: float) -> None:
        self._begun = now
        self._bytes = 0
        self._sample = bytearray()

    def should_compress(self, now: float) -> bool:
        """Whether a connection that begins now should be compressed."""
        return now < self._until

    def record(self, data: bytes, now: float, *, compressed: bool) -> None:
        """*data* was transferred, over a *compressed* connection or another."""
        if now - self._last > GAP_SECONDS:
            self._begin(now)
        self._last = now
        self._bytes += len(data)
        if len(self._sample) < SAMPLE_BYTES:
            self._sample += memoryview(data)[: SAMPLE_BYTES - len(self._sample)]
        if self._bytes >= ENOUGH_BYTES:
            fast = not compressed and self._bytes >= SLOW_BYTES_PER_SECOND * (now - self._begun)
            if fast or not self._compresses_well():
                self._against += 1
                if self._against >= MEASUREMENTS_AGAINST:
                    self._until = float("-inf")
            else:
                self._against = 0
                if not compressed:
                    self._until = now + VALID_SECONDS
            self._begin(now)

    def _compresses_well(self) -> bool:
        return len(zlib.compress(self._sample, 1)) < COMPRESSED_RATIO * len(self._sample)

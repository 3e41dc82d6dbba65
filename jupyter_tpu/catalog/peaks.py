"""Published peak figures per chip, dated: the roof that a program can't pass.

Read on 2026-11-25 from Google's pages on v4, v5e, v5p, v6e and TPU7x (cloud.google.com/tpu/docs).
The 819 and 1638 GB/s of v5e and v6e stand beside 800 and 1600 on other pages of Google's. Of v2 and
v3 no figures were found there: they stay unknown. For v4 there is no ICI bandwidth of a chip, but
the all-reduce bandwidth of a pod: 1.1 PB/s for 4096 chips. That of v5e, 51.2 TB/s for 256 chips, is
half of its 400 GB/s a chip, which count both directions. So v4 has twice its share here, too.
"""

from __future__ import annotations

from msgspec import Struct

PEAKS_READ = "2026-11-25"
PEAKS_SOURCE = "Google's published peak figures per chip (cloud.google.com/tpu/docs)"


class ChipPeak(Struct, kw_only=True, frozen=True):
    """What one chip can do at most."""

    bf16_flops: float  # a second, multiply and add counted as two
    hbm_bytes: float  # a second, read and written together
    ici_bytes: float  # a second over all ports, both directions together
    ici_ports: int  # two for each dimension of the torus


_PEAKS = {
    "v4": ChipPeak(bf16_flops=275e12, hbm_bytes=1228e9, ici_bytes=537e9, ici_ports=6),
    "v5e": ChipPeak(bf16_flops=197e12, hbm_bytes=819e9, ici_bytes=400e9, ici_ports=4),
    "v5p": ChipPeak(bf16_flops=459e12, hbm_bytes=2765e9, ici_bytes=1200e9, ici_ports=6),
    "v6e": ChipPeak(bf16_flops=918e12, hbm_bytes=1638e9, ici_bytes=800e9, ici_ports=4),
    "tpu7x": ChipPeak(bf16_flops=2307e12, hbm_bytes=7380e9, ici_bytes=1200e9, ici_ports=6),
}


def chip_peak(generation: str) -> ChipPeak | None:
    """The peak figures of a chip of *generation* ("v5e"); None if they are not known."""
    return _PEAKS.get(generation)

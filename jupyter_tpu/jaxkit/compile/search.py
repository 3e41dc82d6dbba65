"""The search for a type that a program fits: the types tried, and the result."""

from __future__ import annotations

from collections.abc import Sequence

from ...catalog import (
    PRICES_READ,
    PRICES_SOURCE,
    UnknownType,
    accelerator_type,
    types,
    usd_per_hour,
)
from ...errors import InvalidInput, TPUError
from .models import CompileOutcome, CompileReport, CompileTrial


def by_price(max_devices: int) -> list[str]:
    """The catalog's types with up to *max_devices* devices, the cheapest first."""
    kinds = [kind for kind in types() if kind.devices <= max_devices]
    kinds.sort(key=lambda kind: (usd_per_hour(kind) or float("inf"), kind.hosts))
    return [kind.name for kind in kinds]


class Search:
    """Types that are tried in the order of *names*, until a program fits one."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = list(names)
        self.tried: list[CompileTrial] = []
        self._nearest: CompileReport | None = None
        self._last_skipped = ""

    @property
    def found(self) -> bool:
        """Whether the last one fits."""
        return bool(self.tried and self.tried[-1].fits)

    def skipped(self, name: str, error: TPUError) -> None:
        """The mesh or the arguments don't divide over the devices of *name*."""
        self._last_skipped = f"{name}: {error.message}"
        self.tried.append(
            CompileTrial(type=name, fits=None, why=error.message, usd_per_hour=_price(name))
        )

    def compiled(self, report: CompileReport) -> None:
        """The compiler has reported on a type."""
        nearest = self._nearest
        if nearest is None or report.fits or _lacking(report) < _lacking(nearest):
            self._nearest = report
        self.tried.append(
            CompileTrial(
                type=report.type,
                fits=report.fits,
                needed_bytes=report.needed_bytes,
                hbm_bytes=report.hbm_bytes,
                usd_per_hour=_price(report.type),
                why=report.message,
            )
        )

    def outcome(self) -> CompileOutcome:
        """The result; raises `InvalidInput` if every type was skipped."""
        if self._nearest is None:
            raise InvalidInput(f"No type can run this program. {self._last_skipped}")
        return CompileOutcome(
            type=self._nearest.type if self._nearest.fits else None,
            report=self._nearest,
            tried=self.tried,
            prices=f"{PRICES_SOURCE}, {PRICES_READ}",
        )


def _lacking(report: CompileReport) -> float:
    if report.needed_bytes is None:
        return float("inf")
    return report.needed_bytes - report.hbm_bytes


def _price(name: str) -> float | None:
    try:
        return usd_per_hour(accelerator_type(name))
    except UnknownType:  # tpu7x is not rented by the type
        return None

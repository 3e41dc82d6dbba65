"""`ComputeEngine`: the one place that calls Compute Engine for TPUs, or the emulator for it."""

from __future__ import annotations

from msgspec import structs

from ..protocol import Cloud
from ..target import Place, Target


class ComputeEngine(Cloud):
    """TPUs of Compute Engine, of one target.

    Cheap to construct: files are read at the first call. Raises as `CloudTPU` does. The names of
    its operations begin with "compute/".
    """

    def __init__(self, target: Target | None = None) -> None:
        self.target = target if target is not None else Target.from_environment()
        self._place = Place(self.target)

    @property
    def emulated(self) -> bool:
        return self.target.emulator is not None

    @property
    def identity(self) -> str:
        return self._place.identity

    @property
    def project(self) -> str:
        return self._place.project

    @property
    def zone(self) -> str | None:
        return self._place.zone

    def in_project(self, project: str) -> ComputeEngine:
        return ComputeEngine(structs.replace(self.target, project=project))

"""What the fleet needs of Jupyter's kernelspecs; ``kernels.KernelSpecs`` implements it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class KernelSpecRegistry(Protocol):
    """Methods write small local files. Calling them again does no harm."""

    def register(
        self,
        *,
        project: str,
        zone: str,
        tpu: str,
        worker: int,
        environment: str,
        python_version: str,
        host_python: str,
        emulator: str | None,
        emulated: bool,
        variables: Mapping[str, str],
    ) -> tuple[str, str]:
        """Writes the kernelspec of an environment; returns its name and display name.

        Its kernels are started with *variables*.
        """

    def unregister(
        self, *, project: str, zone: str, tpu: str, environment: str | None = None
    ) -> None:
        """Removes the kernelspec of an environment, or of all of a TPU's environments."""

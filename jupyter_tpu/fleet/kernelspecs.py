"""What the fleet needs of Jupyter's kernelspecs; ``kernels.KernelSpecs`` is one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class KernelSpecRegistry(Protocol):
    """Calls write small local files; they may be repeated."""

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
        """Makes the kernelspec of an environment; gives its name and display name.

        Its kernels are started with *variables*.
        """

    def unregister(
        self, *, project: str, zone: str, tpu: str, environment: str | None = None
    ) -> None:
        """Removes the kernelspec of an environment, or of all of a TPU's environments."""

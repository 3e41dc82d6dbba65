"""What the fleet needs of Jupyter's kernelspecs; ``kernels.KernelSpecs`` implements it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from ..cloud import NodeName
from ..kernel_place import KernelPlace


class KernelSpecRegistry(Protocol):
    """Methods write small local files. Calling them again does no harm."""

    def register(
        self,
        place: KernelPlace,
        *,
        python_version: str,
        title: str,
        emulated: bool,
        variables: Mapping[str, str],
        stopped: bool = False,
    ) -> tuple[str, str]:
        """Writes the kernelspec of an environment, whose kernels are started with *variables*;
        returns its name and display name, which says whether the TPU is *stopped*.

        title: how the display name begins; "": with the version of Python.
        """

    def unregister(
        self, tpu: NodeName, environment: str | None = None, chips: Sequence[int] | None = None
    ) -> None:
        """Removes the kernelspecs of an environment, or of all of a TPU's environments.

        chips: only the one with these.
        """

    def choices(self, tpu: NodeName, environment: str) -> Sequence[Sequence[int]]:
        """The chips that kernelspecs of an environment choose, next to the one with all chips."""

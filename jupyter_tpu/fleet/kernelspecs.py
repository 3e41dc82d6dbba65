"""What the fleet needs of Jupyter's kernelspecs; ``kernels.KernelSpecs`` implements it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        chips: Sequence[int] = (),
        hosts: int = 0,
        slices: Sequence[str] = (),
        stopped: bool = False,
        of_agent: bool = False,
    ) -> tuple[str, str]:
        """Writes the kernelspec of an environment; returns its name and display name, which says
        whether the TPU is *stopped*.

        Its kernels are started with *variables*, and get these *chips* of the host; (): all. They
        run each cell on so many *hosts*; 0: on *worker* only. *slices*: other TPUs of the zone,
        whose hosts are among them. *of_agent*: a coding agent has created the TPU, so its kernels
        get only the tokens that are for agents.
        """

    def unregister(
        self,
        *,
        project: str,
        zone: str,
        tpu: str,
        environment: str | None = None,
        chips: Sequence[int] | None = None,
    ) -> None:
        """Removes the kernelspecs of an environment, or of all of a TPU's environments.

        chips: only the one with these.
        """

    def choices(
        self, *, project: str, zone: str, tpu: str, environment: str
    ) -> Sequence[Sequence[int]]:
        """The chips that kernelspecs of an environment choose, next to the one with all chips."""

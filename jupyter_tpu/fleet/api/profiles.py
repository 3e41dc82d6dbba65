"""What programs on a TPU do with its devices, and with their memory."""

from __future__ import annotations

from typing import Protocol

from .. import models


class ProfilesAPI(Protocol):
    """Profiles of a READY TPU; others raise CONFLICT."""

    async def start(self, ref: str, request: models.ProfileTPU | None = None) -> models.Operation:
        """Traces the programs that use JAX, on all hosts at once, and opens TensorBoard (xprof).

        The operation's result is a :class:`~models.Profile`, also where it fails; its ``app`` is
        the TensorBoard. It is done if one program was traced: the result says what became of the
        others. Raises INVALID for a wrong request, NOT_FOUND for an unknown kernel.
        """

    async def memory(
        self, ref: str, query: models.MemoryQuery | None = None
    ) -> models.MemoryProfiles:
        """What fills the memory of the devices, by the lines of each kernel's program.

        A kernel or host that can't be asked says why. Takes some seconds.
        """

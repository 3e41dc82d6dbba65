"""`MirrorHost`: what a mirror needs of a host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...errors import TPUError
from .remote import StreamingHost


class MirrorHost(StreamingHost, Protocol):
    """A host whose folder may follow a project; ``links.Link`` is one."""

    @property
    def problem(self) -> TPUError | None:
        """Why it can't be reached now."""

    @property
    def host_id(self) -> str:
        """Text that identifies the host among those of all clouds."""

    @property
    def node_id(self) -> str:
        """Of the TPU that it was last connected to."""

    def others(self) -> Sequence[MirrorHost]:
        """The other hosts of its TPU, as far as they are known."""

"""Files on hosts."""

from __future__ import annotations

from msgspec import Struct


class HostFile(Struct, kw_only=True):
    """A file on a host."""

    path: str  # relative to the home folder, or absolute
    size: int  # bytes

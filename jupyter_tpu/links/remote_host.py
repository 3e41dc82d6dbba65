"""What a program needs of a host to work on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..ssh import CompletedCommand
    from .lookup import HostName


class RemoteHost(Protocol):
    """A host to work on; ``Link`` is one."""

    host: HostName

    async def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = ...,
        env: Mapping[str, str] | None = ...,
        cwd: str | None = ...,
        timeout: float | None = ...,
        on_line: Callable[[str], None] | None = ...,
        check: bool = ...,
    ) -> CompletedCommand: ...

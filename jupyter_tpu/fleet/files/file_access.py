"""The fleet's part ``files``: from a TPU and the number of a host to what reaches its files."""

from __future__ import annotations

from ...links import HostName, Link
from ..core.connections import HostConnections
from ..core.finder import TPUFinder
from ..core.host_numbers import host_number
from .contents import HostContents
from .files import HostFiles


class FileAccess:
    """Files of hosts of READY TPUs. Both methods raise NOT_FOUND for a host that does not exist."""

    def __init__(self, finder: TPUFinder, connections: HostConnections) -> None:
        self._finder = finder
        self._connections = connections

    async def on_host(self, ref: str, host: str) -> HostFiles:
        """The files of a host, by its number."""
        return HostFiles(await self._link(ref, host))

    async def contents(self, ref: str, host: str) -> HostContents:
        """As :meth:`on_host`, for a file browser."""
        return HostContents(await self._link(ref, host))

    async def _link(self, ref: str, host: str) -> Link:
        node = await self._finder.find_ready(ref)
        number = host_number(host, len(node.endpoints), node.name.node)
        return self._connections.link(HostName(node.name, number))

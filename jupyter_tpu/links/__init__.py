"""The process's one registry of supervised links to hosts, and the thread they live on.

Wires addresses and pinned keys (``cloud``) into ``ssh``.
"""

from .life import LinkState
from .link import Link
from .lookup import HostGone, HostName
from .registry import Links, default_links
from .thread import CoreThread, core_thread

__all__ = [
    "CoreThread",
    "HostGone",
    "HostName",
    "Link",
    "LinkState",
    "Links",
    "core_thread",
    "default_links",
]

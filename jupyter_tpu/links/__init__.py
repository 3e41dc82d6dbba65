"""The process's registry of supervised links to hosts, and the thread they run on.

It gives ``ssh`` the addresses and host keys from ``cloud``.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .life import LinkState
from .thread import CoreThread, core_thread

if TYPE_CHECKING:
    from .host_numbers import read_host_number
    from .link import Link
    from .lookup import HostGone, HostName, host_alias, no_such_host
    from .owned_kernels import OwnedKernel, end_orphans, register_owned
    from .registry import Links, default_links

__all__ = [
    "CoreThread",
    "HostGone",
    "HostName",
    "Link",
    "LinkState",
    "Links",
    "OwnedKernel",
    "core_thread",
    "default_links",
    "end_orphans",
    "host_alias",
    "no_such_host",
    "read_host_number",
    "register_owned",
]

#: Loaded at first use: Jupyter Server's start needs none of it.
_LATER = {
    "Link": "link",
    "HostGone": "lookup",
    "HostName": "lookup",
    "host_alias": "lookup",
    "read_host_number": "host_numbers",
    "no_such_host": "lookup",
    "Links": "registry",
    "OwnedKernel": "owned_kernels",
    "end_orphans": "owned_kernels",
    "register_owned": "owned_kernels",
    "default_links": "registry",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(f".{_LATER[name]}", __name__), name)
    raise AttributeError(name)

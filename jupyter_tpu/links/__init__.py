"""The process's registry of supervised links to hosts, and the thread they run on.

It gives ``ssh`` the addresses and host keys from ``cloud``.
"""

from typing import TYPE_CHECKING

from ..lazy import lazy_names
from .thread import CoreThread, core_thread

if TYPE_CHECKING:
    from .host_numbers import read_host_number
    from .life import LinkState
    from .link import Link
    from .lookup import HostGone, HostName, host_alias
    from .missing_hosts import no_such_host
    from .owned_kernels import OwnedKernel, end_orphans, register_owned
    from .registry import Links, default_links

#: Loaded at first use: Jupyter Server's start needs none of it.
__getattr__ = lazy_names(
    __name__,
    {
        "host_numbers": "read_host_number",
        "life": "LinkState",
        "link": "Link",
        "lookup": "HostGone HostName host_alias",
        "missing_hosts": "no_such_host",
        "owned_kernels": "OwnedKernel end_orphans register_owned",
        "registry": "Links default_links",
    },
)

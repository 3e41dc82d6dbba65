"""Web applications of a host in the browser, each on an origin of its own: HTTP over SSH channels.

A page from a host is a stranger's program. On Jupyter's origin it could start a terminal and read
the notebooks; at ``http://LABEL.localhost:PORT`` it has only itself.
"""

from .admission import Admission
from .beneath import Beneath
from .exchange import Answer, Asked, View
from .listener import AppServer
from .origin import COOKIE, Origin
from .site import Site
from .upstream import Upstream

__all__ = [
    "COOKIE",
    "Admission",
    "Answer",
    "AppServer",
    "Asked",
    "Beneath",
    "Origin",
    "Site",
    "Upstream",
    "View",
]

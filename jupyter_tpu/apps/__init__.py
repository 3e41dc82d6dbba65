"""Web applications of a host in the browser, each on its own origin: HTTP over SSH channels.

A page from a host is untrusted code. On Jupyter's origin it could start a terminal and read the
notebooks. At ``http://LABEL.localhost:PORT`` it can reach only itself.
"""

from .auth import AppAuth
from .listener import AppServer
from .mounts import COOKIE, Mount, Origin, PathMount
from .reverse_proxy import BrowserRequest, Response, ReverseProxy
from .site import Site
from .upstream import Upstream

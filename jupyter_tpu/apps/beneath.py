"""An app beneath a path of Jupyter's own origin: what of Jupyter's a host never gets. No I/O.

Pages there can do what their user can: nothing in this file changes that. But the program on the
host gets no cookie or token with which it could act by itself, and it can set none of Jupyter's.
"""

from __future__ import annotations

import hashlib
from urllib.parse import urlsplit

from msgspec import Struct

#: Said to Jupyter by its own pages, or meant for it.
_JUPYTERS = frozenset(
    {"authorization", "x-xsrftoken", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"}
)
#: Names in a query by which Jupyter lets people in.
_SECRET = ("token", "_xsrf")


class Beneath(Struct, frozen=True):
    """A part of Jupyter's origin (a `Place`).

    host: as the browser names it (the Host of its requests).
    prefix: the path below which the app is, as it stands in requests; it ends without a slash.
    """

    host: str
    prefix: str

    @property
    def base(self) -> str:
        return self.prefix

    @property
    def socket(self) -> str:
        return f"ws://{self.host} wss://{self.host}" if _plain(self.host) else ""

    @property
    def kept(self) -> frozenset[str]:
        return _JUPYTERS

    def owns(self, origin: str) -> bool:
        # The scheme is not known: Hubs and other proxies speak https for a server that does not.
        return origin.lower() in (f"http://{self.host}".lower(), f"https://{self.host}".lower())

    def path(self, url: str) -> str | None:
        parts = urlsplit(url)
        if not self.owns(f"{parts.scheme}://{parts.netloc}"):
            return None
        return self.at_host(parts._replace(scheme="", netloc="", fragment="").geturl())

    def at_host(self, uri: str) -> str | None:
        """The path and query of a request without what is below, and what lets people in to,
        Jupyter; None for one that is not the app's.
        """
        if not uri.startswith(f"{self.prefix}/"):
            return None
        path, mark, query = uri[len(self.prefix) :].partition("?")
        parts = [part for part in query.split("&") if part.partition("=")[0] not in _SECRET]
        return path + (mark + "&".join(parts) if parts and mark else "")

    def below(self, path: str) -> str:
        return path if path.startswith(f"{self.prefix}/") else self.prefix + path

    # All cookies of the host have names in the browser that begin with our word for it. So nobody
    # needs to know which others there are: Jupyter's, a Hub's, those of a proxy before it.

    def cookie_to_host(self, cookie: str) -> str | None:
        return cookie[len(self._mark) :] if cookie.startswith(self._mark) else None

    def cookie_to_browser(self, cookie: str) -> str | None:
        """Under our name for it, for the app's path or a part of that, and this machine alone."""
        pair, *attributes = (part.strip() for part in cookie.split(";"))
        if not pair.partition("=")[0].strip() or "=" not in pair:
            return None
        path, kept = "/", []
        for attribute in attributes:
            name, _, value = attribute.partition("=")
            if name.strip().lower() == "path":
                path = value.strip() if value.strip().startswith("/") else "/"
            elif name.strip().lower() != "domain":
                kept.append(attribute)
        return "; ".join([self._mark + pair, f"Path={self.below(path)}", *kept])

    @property
    def _mark(self) -> str:
        return f"jupyter-tpu-{hashlib.sha256(self.prefix.encode()).hexdigest()[:12]}-"


def _plain(host: str) -> bool:
    """Whether it is a name and port, and nothing that would add to a policy."""
    return bool(host) and all(each.isalnum() or each in ".-:[]" for each in host)

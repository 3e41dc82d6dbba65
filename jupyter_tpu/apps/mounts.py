"""Where an app is in the browser: an origin of its own, or a path of Jupyter's origin. No I/O.

Under Jupyter's origin (`PathMount`) a page can do what its user can; nothing here changes that.
But the program on the host gets no cookie or token with which it could act on its own, and it can
set none of Jupyter's.
"""

from __future__ import annotations

import hashlib
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct

#: Our session cookie. "__Host-": browsers refuse it from another host or for a part of the site.
COOKIE = "__Host-jupyter-tpu-app"

#: Headers that Jupyter's pages send to Jupyter, or that tell a server its public address.
_JUPYTER_HEADERS = frozenset(
    {"authorization", "x-xsrftoken", "x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"}
)
#: Query parameters that authenticate a request to Jupyter.
_JUPYTER_QUERY = ("token", "_xsrf")


class Mount(Protocol):
    """Where an app is in the browser. The rules for passing headers on depend on it."""

    @property
    def base(self) -> str:
        """What a redirect to the app's root begins with, without a final slash."""

    @property
    def websocket_source(self) -> str:
        """The app's WebSocket addresses as sources of a Content-Security-Policy."""

    @property
    def withheld_headers(self) -> frozenset[str]:
        """More headers that the host does not get, in lower case."""

    @property
    def forwarded(self) -> list[tuple[str, str]]:
        """X-Forwarded headers: applications such as Gradio build their addresses from them."""

    def owns(self, origin: str) -> bool:
        """Whether the app's pages are at that origin."""

    def path_of(self, url: str) -> str | None:
        """The path and query at the host of one of the app's own URLs; None for other URLs."""

    def to_browser_path(self, path: str) -> str:
        """Where a path of the host (with a leading slash) is in the browser."""

    def cookie_to_host(self, cookie: str) -> str | None:
        """A cookie (name=value) as the host knows it; None if the host must not get it."""

    def cookie_to_browser(self, cookie: str) -> str | None:
        """A Set-Cookie of the host as it may be set; None if it may not."""


class Origin(Struct, frozen=True):
    """An origin of its own (a `Mount`)."""

    label: str
    port: int

    @property
    def host(self) -> str:
        return f"{self.label}.localhost:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    @property
    def base(self) -> str:
        return self.url

    @property
    def websocket_source(self) -> str:
        return f"ws://{self.host}"

    @property
    def withheld_headers(self) -> frozenset[str]:
        return frozenset({"x-forwarded-for", "x-forwarded-host", "x-forwarded-proto"})

    @property
    def forwarded(self) -> list[tuple[str, str]]:
        return [("X-Forwarded-Host", self.host), ("X-Forwarded-Proto", "http")]

    def owns(self, origin: str) -> bool:
        return origin == self.url

    def path_of(self, url: str) -> str | None:
        return url[len(self.url) :] if url.startswith(f"{self.url}/") else None

    def to_browser_path(self, path: str) -> str:
        return path

    def cookie_to_host(self, cookie: str) -> str | None:
        return cookie if cookie.partition("=")[0].strip() != COOKIE else None

    def cookie_to_browser(self, cookie: str) -> str | None:
        """None for our session cookie, and for one that other apps would get (Domain=)."""
        name, *attributes = (part.strip() for part in cookie.split(";"))
        if name.partition("=")[0].strip().lower() == COOKIE.lower():
            return None
        wide = any(part.partition("=")[0].strip().lower() == "domain" for part in attributes)
        return None if wide else cookie


class PathMount(Struct, frozen=True):
    """A path of Jupyter's origin (a `Mount`).

    host: as the browser names it (the Host header of its requests).
    prefix: the app's path as it stands in requests, without a final slash.
    """

    host: str
    prefix: str

    @property
    def base(self) -> str:
        return self.prefix

    @property
    def websocket_source(self) -> str:
        return f"ws://{self.host} wss://{self.host}" if _is_host_name(self.host) else ""

    @property
    def withheld_headers(self) -> frozenset[str]:
        return _JUPYTER_HEADERS

    @property
    def forwarded(self) -> list[tuple[str, str]]:
        # Not the address: the prefix has no header that applications agree on.
        return []

    def owns(self, origin: str) -> bool:
        # The scheme is unknown: Hubs and other proxies terminate TLS in front of the server.
        return origin.lower() in (f"http://{self.host}".lower(), f"https://{self.host}".lower())

    def path_of(self, url: str) -> str | None:
        parts = urlsplit(url)
        if not self.owns(f"{parts.scheme}://{parts.netloc}"):
            return None
        return self.to_host_path(parts._replace(scheme="", netloc="", fragment="").geturl())

    def to_host_path(self, uri: str) -> str | None:
        """The request's path and query at the host, without our prefix and without Jupyter's
        credentials; None for a path outside the app.
        """
        if not uri.startswith(f"{self.prefix}/"):
            return None
        path, mark, query = uri[len(self.prefix) :].partition("?")
        parts = [part for part in query.split("&") if part.partition("=")[0] not in _JUPYTER_QUERY]
        return path + (mark + "&".join(parts) if parts and mark else "")

    def to_browser_path(self, path: str) -> str:
        return path if path.startswith(f"{self.prefix}/") else self.prefix + path

    # The host's cookies get a name prefix of ours in the browser. Other cookies (Jupyter's, a
    # Hub's, those of a proxy in front of it) are recognised by not having it.

    def cookie_to_host(self, cookie: str) -> str | None:
        prefix = self._cookie_prefix
        return cookie[len(prefix) :] if cookie.startswith(prefix) else None

    def cookie_to_browser(self, cookie: str) -> str | None:
        """Under our name for it, limited to the app's path and to this host."""
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
        return "; ".join([self._cookie_prefix + pair, f"Path={self.to_browser_path(path)}", *kept])

    @property
    def _cookie_prefix(self) -> str:
        return f"jupyter-tpu-{hashlib.sha256(self.prefix.encode()).hexdigest()[:12]}-"


def _is_host_name(host: str) -> bool:
    """Whether it is a name and port, and can't add another directive to a policy."""
    return bool(host) and all(character.isalnum() or character in ".-:[]" for character in host)

"""What may reach an app, and which headers pass between its browser and its host. No I/O.

The design was tried header by header in Chromium. Cookies ignore ports and are shared by all apps
in one JupyterLab tab (one partition), so a valid cookie alone says little: `refusal` looks at
where each request comes from, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Protocol
from urllib.parse import urlsplit

from msgspec import Struct

#: Our cookie. "__Host-": the browser itself refuses it from another host or for a part of one.
COOKIE = "__Host-jupyter-tpu-app"
#: Where tickets are used, and what the page asks to learn whether it can reach us at all.
ENTER = "/.jupyter-tpu/enter/"
HERE = "/.jupyter-tpu/here"

Headers = list[tuple[str, str]]

#: An origin that may frame an app; nothing else gets into our headers.
ORIGIN = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]{1,255}")

#: Of one connection, not of the request or answer (RFC 9110, 7.6.1).
_HOP = {
    "connection",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
}
#: Ours to say, or about a connection that the browser does not have.
_NOT_TO_HOST = _HOP | {"host", "origin", "referer", "cookie", "expect", "content-length"}
#: Ours to say, or about more than the app's pages.
_NOT_TO_BROWSER = _HOP | {
    "x-frame-options",
    "referrer-policy",
    "strict-transport-security",
    "alt-svc",
    "clear-site-data",
    "service-worker-allowed",
    "nel",
    "report-to",
}
_HERE_NAMES = ("localhost", "127.0.0.1", "[::1]", "0.0.0.0")


class Place(Protocol):
    """Where an app is in the browser: what the rules of passing headers on depend on."""

    @property
    def base(self) -> str:
        """What a redirect to the app's root begins with, without a slash at its end."""

    @property
    def socket(self) -> str:
        """Where its WebSockets are, as a Content-Security-Policy names it."""

    @property
    def kept(self) -> frozenset[str]:
        """More headers that are not for the host, in small letters."""

    def owns(self, origin: str) -> bool:
        """Whether that is the origin at which the app's pages are."""

    def path(self, url: str) -> str | None:
        """The path and query at the host of one of the app's own URLs; None for others."""

    def below(self, path: str) -> str:
        """Where a path that begins with a slash is in the browser."""

    def cookie_to_host(self, cookie: str) -> str | None:
        """A cookie (name=value) as the host knows it; None for one that it may not have."""

    def cookie_to_browser(self, cookie: str) -> str | None:
        """A Set-Cookie of the host, as it may be set; None if it may not."""


class Origin(Struct, frozen=True):
    """An origin of its own."""

    label: str
    port: int

    @property
    def host(self) -> str:
        return f"{self.label}.localhost:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"

    # ---- as a Place ----

    @property
    def base(self) -> str:
        return self.url

    @property
    def socket(self) -> str:
        return f"ws://{self.host}"

    @property
    def kept(self) -> frozenset[str]:
        return frozenset()

    def owns(self, origin: str) -> bool:
        return origin == self.url

    def path(self, url: str) -> str | None:
        return url[len(self.url) :] if url.startswith(f"{self.url}/") else None

    def below(self, path: str) -> str:
        return path

    def cookie_to_host(self, cookie: str) -> str | None:
        return cookie if cookie.partition("=")[0].strip() != COOKIE else None

    def cookie_to_browser(self, cookie: str) -> str | None:
        """Not ours, and not one that other apps would get."""
        name, *attributes = (part.strip() for part in cookie.split(";"))
        if name.partition("=")[0].strip().lower() == COOKIE.lower():
            return None
        wide = any(part.partition("=")[0].strip().lower() == "domain" for part in attributes)
        return None if wide else cookie


class Refusal(Struct, frozen=True):
    status: int
    message: str


def refusal(
    place: Place, method: str, headers: Mapping[str, str], *, upgrade: bool
) -> Refusal | None:
    """Why a request must not go on, whatever cookie it has; *headers* are case-insensitive."""
    said = headers.get("Origin")
    if said is None and upgrade:
        return Refusal(403, "A WebSocket needs to say its origin.")
    if said is not None and not place.owns(said):
        return Refusal(403, "Pages of other origins have no access to this one.")
    if headers.get("Sec-Fetch-Site", "none") in ("same-origin", "none"):
        return None
    if (
        method == "GET"
        and headers.get("Sec-Fetch-Mode") == "navigate"
        and headers.get("Sec-Fetch-Dest") in ("document", "iframe")
    ):
        return None
    return Refusal(403, "Pages of other origins can only open this one, not use it.")


def cookie(headers: Mapping[str, str]) -> str:
    """The secret of our cookie; "" if there is none."""
    for part in headers.get("Cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def set_cookie(secret: str) -> str:
    """Any other set of attributes is not sent from an iframe at http://….localhost."""
    return f"{COOKIE}={secret}; Path=/; HttpOnly; Secure; SameSite=None; Partitioned"


def to_host(place: Place, port: int, headers: Headers) -> Headers:
    """A request's headers as a program on the host would send them to its `localhost`."""
    kept = _without(headers, _NOT_TO_HOST | place.kept)
    kept.append(("Host", f"localhost:{port}"))
    for name, value in headers:
        lower = name.lower()
        if lower == "origin":
            kept.append((name, f"http://localhost:{port}"))
        elif lower == "referer" and (path := place.path(value)) is not None:
            kept.append((name, f"http://localhost:{port}{path}"))
        elif lower == "cookie":
            own = (place.cookie_to_host(part.strip()) for part in value.split(";"))
            if others := [part for part in own if part]:
                kept.append((name, "; ".join(others)))
    return kept


def to_browser(
    place: Place, port: int, headers: Headers, framed_by: str, *, anywhere: bool = False
) -> Headers:
    """An answer's headers as the app's place gives them; *framed_by*: as in a pass, *anywhere*: as
    of `policy`.
    """
    kept: Headers = []
    for name, value in _without(headers, _NOT_TO_BROWSER):
        lower = name.lower()
        if lower == "location":
            value = _here(place, port, value)
        elif lower == "set-cookie":
            value = place.cookie_to_browser(value) or ""
        elif lower == "content-security-policy":
            value = _framable(value)
        if value or lower not in ("set-cookie", "content-security-policy"):
            kept.append((name, value))
    return [*kept, *policy(place, framed_by, anywhere=anywhere)]


def policy(place: Place, framed_by: str, *, anywhere: bool = False) -> Headers:
    """What a page of the app may do, besides what its server says.

    It may be framed by itself and the page that opened it. Unless *anywhere*, it may connect and
    send forms to itself alone: other programs of this machine listen on loopback, too, and take
    what is sent blindly.
    """
    said = [f"frame-ancestors 'self' {framed_by}".strip()]
    if not anywhere:
        said += [f"connect-src 'self' {place.socket}".strip(), "form-action 'self'"]
    return [("Content-Security-Policy", "; ".join(said)), ("Referrer-Policy", "same-origin")]


def _without(headers: Headers, names: Iterable[str]) -> Headers:
    """Without those, and without what `Connection` names."""
    left_out = set(names)
    for name, value in headers:
        if name.lower() == "connection":
            left_out.update(part.strip().lower() for part in value.split(","))
    return [(name, value) for name, value in headers if name.lower() not in left_out]


def _here(place: Place, port: int, location: str) -> str:
    """Where a redirect leads: one to the app itself stays in its place."""
    try:
        parts = urlsplit(location)
        there = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return location
    if not parts.netloc:
        return place.below(location) if location.startswith("/") else location
    name = parts.netloc.rpartition("@")[2].rsplit(":", 1)[0]
    if parts.scheme not in ("http", "") or there not in (port, None) or name not in _HERE_NAMES:
        return location
    return place.base + parts._replace(scheme="", netloc="").geturl()


def _framable(policies: str) -> str:
    """A server's own policies, but for who may frame it: that is ours to say."""
    kept = []
    for policy in policies.split(","):
        parts = [part.strip() for part in policy.split(";") if part.strip()]
        kept.append("; ".join(p for p in parts if p.split()[0].lower() != "frame-ancestors"))
    return ", ".join(filter(None, kept))

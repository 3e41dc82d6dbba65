"""What may reach an app, and which headers pass between its browser and its host. No I/O.

The design was tried header by header in Chromium. Cookies ignore ports and are shared by all apps
in one JupyterLab tab (one partition), so a valid cookie alone says little: `refusal` looks at
where each request comes from, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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
_NOT_TO_BROWSER = _HOP | {
    "x-frame-options",
    "referrer-policy",
    "strict-transport-security",
    "alt-svc",
    "clear-site-data",
}
_HERE_NAMES = ("localhost", "127.0.0.1", "[::1]", "0.0.0.0")


class Origin(Struct, frozen=True):
    """Where one app is in the browser."""

    label: str
    port: int

    @property
    def host(self) -> str:
        return f"{self.label}.localhost:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.host}"


class Refusal(Struct, frozen=True):
    status: int
    message: str


def refusal(
    origin: Origin, method: str, headers: Mapping[str, str], *, upgrade: bool
) -> Refusal | None:
    """Why a request must not go on, whatever cookie it has; *headers* are case-insensitive."""
    said = headers.get("Origin")
    if said is None and upgrade:
        return Refusal(403, "A WebSocket needs to say its origin.")
    if said is not None and said != origin.url:
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


def to_host(origin: Origin, port: int, headers: Headers) -> Headers:
    """A request's headers as a program on the host would send them to its `localhost`."""
    kept = _without(headers, _NOT_TO_HOST)
    kept.append(("Host", f"localhost:{port}"))
    for name, value in headers:
        lower = name.lower()
        if lower == "origin":
            kept.append((name, f"http://localhost:{port}"))
        elif lower == "referer" and value.startswith(f"{origin.url}/"):
            kept.append((name, f"http://localhost:{port}{value[len(origin.url) :]}"))
        elif lower == "cookie":
            own = [part.strip() for part in value.split(";")]
            others = [part for part in own if part and part.partition("=")[0].strip() != COOKIE]
            if others:
                kept.append((name, "; ".join(others)))
    return kept


def to_browser(origin: Origin, port: int, headers: Headers, framed_by: str) -> Headers:
    """An answer's headers as the app's own origin gives them; *framed_by*: as in a pass."""
    kept: Headers = []
    for name, value in _without(headers, _NOT_TO_BROWSER):
        lower = name.lower()
        if lower == "location":
            value = _here(origin, port, value)
        elif lower == "set-cookie" and not _may_be_set(value):
            continue
        elif lower == "content-security-policy":
            value = _framable(value)
            if not value:
                continue
        kept.append((name, value))
    return [*kept, *policy(origin, framed_by)]


def policy(origin: Origin, framed_by: str) -> Headers:
    """What a page of the app may do, besides what its server says.

    It may be framed by itself and the page that opened it; it may connect and send forms to itself
    alone: other programs of this machine listen on loopback, too, and take what is sent blindly.
    """
    ancestors = f"'self' {framed_by}".strip()
    return [
        (
            "Content-Security-Policy",
            f"frame-ancestors {ancestors}; connect-src 'self' ws://{origin.host}; "
            "form-action 'self'",
        ),
        ("Referrer-Policy", "same-origin"),
    ]


def _without(headers: Headers, names: Iterable[str]) -> Headers:
    """Without those, and without what `Connection` names."""
    left_out = set(names)
    for name, value in headers:
        if name.lower() == "connection":
            left_out.update(part.strip().lower() for part in value.split(","))
    return [(name, value) for name, value in headers if name.lower() not in left_out]


def _here(origin: Origin, port: int, location: str) -> str:
    """Where a redirect leads: an absolute one to the app itself stays at its origin."""
    try:
        parts = urlsplit(location)
        there = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return location
    name = parts.netloc.rpartition("@")[2].rsplit(":", 1)[0] if parts.netloc else ""
    if parts.scheme not in ("http", "") or there not in (port, None) or not parts.netloc:
        return location
    if name not in _HERE_NAMES:
        return location
    return origin.url + parts._replace(scheme="", netloc="").geturl()


def _may_be_set(value: str) -> bool:
    """Not ours, and not one that other apps would get."""
    name, *attributes = (part.strip() for part in value.split(";"))
    if name.partition("=")[0].strip().lower() == COOKIE.lower():
        return False
    return not any(part.partition("=")[0].strip().lower() == "domain" for part in attributes)


def _framable(policies: str) -> str:
    """A server's own policies, but for who may frame it: that is ours to say."""
    kept = []
    for policy in policies.split(","):
        parts = [part.strip() for part in policy.split(";") if part.strip()]
        kept.append("; ".join(p for p in parts if p.split()[0].lower() != "frame-ancestors"))
    return ", ".join(filter(None, kept))

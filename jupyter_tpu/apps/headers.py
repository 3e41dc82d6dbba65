"""Which requests may reach an app, and which headers pass between browser and host. No I/O.

The rules were tested header by header in Chromium. Cookies ignore ports, and all apps in one
JupyterLab tab share one cookie partition. So a valid cookie is not enough: `refusal` also checks
where each request comes from.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from .mounts import COOKIE, Mount

Headers = list[tuple[str, str]]

#: An origin that may frame an app. Nothing else gets into our headers.
ORIGIN = re.compile(r"https?://[A-Za-z0-9.\-\[\]:]{1,255}")

#: Headers of one connection, not of the request or answer (RFC 9110, 7.6.1).
_HOP_BY_HOP = {
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
#: We set these, or they describe a connection that the browser does not have.
_NOT_TO_HOST = _HOP_BY_HOP | {"host", "origin", "referer", "cookie", "expect", "content-length"}
#: We set these, or they affect more than the app's pages.
_NOT_TO_BROWSER = _HOP_BY_HOP | {
    "x-frame-options",
    "referrer-policy",
    "strict-transport-security",
    "alt-svc",
    "clear-site-data",
    "service-worker-allowed",
    # A browser sends reports wherever these say, in POST requests that no policy limits.
    "nel",
    "report-to",
    "reporting-endpoints",
    "content-security-policy-report-only",
}
#: Directives of a server's own policy that don't pass: report addresses, and what we set ourselves.
_DIRECTIVES_NOT_TO_BROWSER = ("frame-ancestors", "report-uri", "report-to")
#: For answers without the host's content. A page of the same origin can script them in frames and
#: popups, so they need a policy, too.
ERROR_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]", "0.0.0.0")


class Refusal(Struct, frozen=True):
    status: int
    message: str


def refusal(
    mount: Mount,
    method: str,
    headers: Mapping[str, str],
    *,
    upgrade: bool,
    allow_external: bool = False,
) -> Refusal | None:
    """Why a request is refused, even with a valid cookie; *headers* are case-insensitive."""
    if "Service-Worker" in headers and not allow_external:
        # It could answer requests itself, without our policy, even after the app is closed.
        return Refusal(403, "Service workers are not allowed in this app.")
    origin = headers.get("Origin")
    if origin is None and upgrade:
        return Refusal(403, "A WebSocket request needs an Origin header.")
    if origin is not None and not mount.owns(origin):
        return Refusal(403, "Pages of other origins can't access this app.")
    if headers.get("Sec-Fetch-Site", "none") in ("same-origin", "none"):
        return None
    if (
        method == "GET"
        and headers.get("Sec-Fetch-Mode") == "navigate"
        and headers.get("Sec-Fetch-Dest") in ("document", "iframe")
    ):
        return None
    return Refusal(403, "Pages of other origins can only open this app, not use it.")


def session_secret(headers: Mapping[str, str]) -> str:
    """The value of our session cookie; "" if there is none."""
    for part in headers.get("Cookie", "").split(";"):
        name, _, value = part.strip().partition("=")
        if name == COOKIE:
            return value
    return ""


def session_cookie(secret: str) -> str:
    """Any other set of attributes is not sent from an iframe at http://….localhost."""
    return f"{COOKIE}={secret}; Path=/; HttpOnly; Secure; SameSite=None; Partitioned"


def to_host(mount: Mount, port: int, headers: Headers) -> Headers:
    """A request's headers as a program on the host would send them to its `localhost`."""
    kept = _without(headers, _NOT_TO_HOST | mount.withheld_headers)
    kept += [("Host", f"localhost:{port}"), *mount.forwarded]
    for name, value in headers:
        lower = name.lower()
        if lower == "origin":
            kept.append((name, f"http://localhost:{port}"))
        elif lower == "referer" and (path := mount.path_of(value)) is not None:
            kept.append((name, f"http://localhost:{port}{path}"))
        elif lower == "cookie":
            own = (mount.cookie_to_host(part.strip()) for part in value.split(";"))
            if others := [part for part in own if part]:
                kept.append((name, "; ".join(others)))
    return kept


def to_browser(
    mount: Mount, port: int, headers: Headers, framed_by: str, *, allow_external: bool = False
) -> Headers:
    """A response's headers as the browser gets them.

    framed_by: see `AppSession`. allow_external: see `policy`.
    """
    kept: Headers = []
    for name, value in _without(headers, _NOT_TO_BROWSER):
        lower = name.lower()
        if lower == "location":
            value = _rewrite_location(mount, port, value)
        elif lower == "set-cookie":
            value = mount.cookie_to_browser(value) or ""
        elif lower == "content-security-policy":
            value = _own_policies(value)
        if value or lower not in ("set-cookie", "content-security-policy"):
            kept.append((name, value))
    return [*kept, *policy(mount, framed_by, allow_external=allow_external)]


def policy(mount: Mount, framed_by: str, *, allow_external: bool = False) -> Headers:
    """What a page of the app may do, in addition to its server's own policy.

    Only the app itself and the page that opened it may frame it. Unless *allow_external*, it may
    connect and send forms only to itself: other programs on this machine listen on loopback, too,
    and may accept any request.
    """
    directives = [f"frame-ancestors 'self' {framed_by}".strip()]
    if not allow_external:
        directives += [
            f"connect-src 'self' {mount.websocket_source}".strip(),
            "form-action 'self'",
        ]
    return [("Content-Security-Policy", "; ".join(directives)), ("Referrer-Policy", "same-origin")]


def _without(headers: Headers, names: Iterable[str]) -> Headers:
    """Without those, and without the headers that `Connection` names."""
    left_out = set(names)
    for name, value in headers:
        if name.lower() == "connection":
            left_out.update(part.strip().lower() for part in value.split(","))
    return [(name, value) for name, value in headers if name.lower() not in left_out]


def _rewrite_location(mount: Mount, port: int, location: str) -> str:
    """A redirect to the app itself leads to its mount; others stay as they are."""
    try:
        parts = urlsplit(location)
        target = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return location
    if not parts.netloc:
        return mount.to_browser_path(location) if location.startswith("/") else location
    name = parts.netloc.rpartition("@")[2].rsplit(":", 1)[0]
    if (
        parts.scheme not in ("http", "")
        or target not in (port, None)
        or name not in _LOOPBACK_NAMES
    ):
        return location
    return mount.base + parts._replace(scheme="", netloc="").geturl()


def _own_policies(policies: str) -> str:
    """A server's own policies without the directives that don't pass."""
    kept = []
    for policy in policies.split(","):
        parts = [part.strip() for part in policy.split(";") if part.strip()]
        kept.append(
            "; ".join(p for p in parts if p.split()[0].lower() not in _DIRECTIVES_NOT_TO_BROWSER)
        )
    return ", ".join(filter(None, kept))

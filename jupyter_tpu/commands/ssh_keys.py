"""The SSH key for TPUs in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..fleet.models import SSHKeyPlace, SSHKeyStatus


def describe_key(status: SSHKeyStatus) -> str:
    """The key, where it is known, and what hosts accept."""
    emulated = " (emulated)" if status.emulated else ""
    rule = "Google accounts (OS Login)" if status.os_login else "keys in metadata"
    rows = [
        ("key", f"{status.fingerprint} ({status.path})"),
        ("project", f"{status.project}{emulated}: hosts accept {rule}"),
        (
            "account",
            _location_text(status.in_account, status.account) if status.account else "not used",
        ),
        ("metadata", _location_text(status.in_project, f"of {status.project}")),
    ]
    if not status.os_login:
        rows.append(("TPUs", f"get the key when they are created or connected: user {status.user}"))
    lines = [f"{name:9} {text}" for name, text in rows]
    return "\n".join([*lines, *(f"WARNING   {text}" for text in status.warnings)])


def _location_text(place: SSHKeyPlace | None, where: str) -> str:
    if place is None:
        return f"{where}: the key is not there"
    return f"{where}: user {place.user}, {f'until {place.until}' if place.until else 'no end'}"

"""The SSH key for TPUs in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..fleet.models import SSHKeyPlace, SSHKeyStatus


def describe_key(found: SSHKeyStatus) -> str:
    """The key, where it is known, and what hosts accept."""
    emulated = " (emulated)" if found.emulated else ""
    rule = "Google accounts (OS Login)" if found.os_login else "keys in metadata"
    rows = [
        ("key", f"{found.fingerprint} ({found.path})"),
        ("project", f"{found.project}{emulated}: hosts accept {rule}"),
        (
            "account",
            _location_text(found.in_account, found.account) if found.account else "not used",
        ),
        ("metadata", _location_text(found.in_project, f"of {found.project}")),
    ]
    if not found.os_login:
        rows.append(("TPUs", f"get the key when they are created or connected: user {found.user}"))
    lines = [f"{name:9} {text}" for name, text in rows]
    return "\n".join([*lines, *(f"WARNING   {text}" for text in found.warnings)])


def _location_text(place: SSHKeyPlace | None, where: str) -> str:
    if place is None:
        return f"{where}: the key is not there"
    return f"{where}: user {place.user}, {f'until {place.until}' if place.until else 'no end'}"

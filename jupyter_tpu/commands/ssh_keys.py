"""The SSH key for TPUs in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..wording import phrase

if TYPE_CHECKING:
    from ..fleet.models import SSHKeyPlace, SSHKeyStatus


def describe_key(status: SSHKeyStatus) -> str:
    """The key, where it is known, and what hosts accept."""
    emulated = " (emulated)" if status.emulated else ""
    rule = phrase("hosts accept keys in metadata")
    if status.os_login:
        rule = phrase("hosts accept Google accounts (OS Login)")
    rows = [
        ("key", f"{status.fingerprint} ({status.path})"),
        ("project", f"{status.project}{emulated}: {rule}"),
        (
            "account",
            _location_text(status.in_account, status.account)
            if status.account
            else phrase("not used"),
        ),
        ("metadata", _location_text(status.in_project, f"of {status.project}")),
    ]
    if not status.os_login:
        user = status.user
        rows.append(
            ("TPUs", phrase(f"get the key when they are created or connected: user {user}"))
        )
    lines = [f"{name:9} {text}" for name, text in rows]
    return "\n".join([*lines, *(f"WARNING   {text}" for text in status.warnings)])


def _location_text(place: SSHKeyPlace | None, where: str) -> str:
    if place is None:
        return f"{where}: {phrase('the key is not there')}"
    until = phrase(f"until {place.until}" if place.until else "no end")
    return f"{where}: {phrase(f'user {place.user}')} · {until}"

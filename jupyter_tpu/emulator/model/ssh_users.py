"""Who may log in to a host, as Google's guest agent derives it from `ssh-keys` metadata."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime

#: What useradd accepts, and so what the guest agent can make.
USER = re.compile(r"[a-z_][-a-z0-9_.]{0,31}")
EXPIRING = " google-ssh "


def authorized(
    node: Mapping[str, str], project: Mapping[str, str], now: datetime
) -> dict[str, list[str]]:
    """User → public key lines, from a node's and its project's metadata.

    Lines are ``USER:KEY…``; those that end with ``google-ssh {"expireOn": …}`` count until then.
    The project's keys are left out where the node says ``block-project-ssh-keys``.
    """
    texts = [node.get("ssh-keys", ""), node.get("sshKeys", "")]
    if node.get("block-project-ssh-keys", "").lower() != "true":
        texts += [project.get("ssh-keys", ""), project.get("sshKeys", "")]
    by_user: dict[str, list[str]] = {}
    for line in "\n".join(texts).splitlines():
        user, _, key = line.strip().partition(":")
        if not key or not USER.fullmatch(user) or user == "root" or _expired(key, now):
            continue
        keys = by_user.setdefault(user, [])
        if key not in keys:
            keys.append(key)
    return by_user


def _expired(key: str, now: datetime) -> bool:
    _, expiring, text = key.partition(EXPIRING)
    if not expiring:
        return False
    try:
        until = datetime.strptime(json.loads(text)["expireOn"], "%Y-%m-%dT%H:%M:%S%z")
    except (ValueError, KeyError, TypeError):
        return True  # the guest agent skips what it can't read
    return until <= now

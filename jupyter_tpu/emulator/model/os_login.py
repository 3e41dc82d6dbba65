"""Who may log in to a host: by OS Login, whose accounts belong to Google users, or by keys in
metadata.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from . import api_errors
from .records import OsLoginKey

#: In a node's metadata, or else its project's.
ENABLED = "enable-oslogin"


def is_enabled(node: Mapping[str, str], project: Mapping[str, str]) -> bool:
    return node.get(ENABLED, project.get(ENABLED, "")).lower() in ("true", "y", "1")


class OsLogin:
    """The keys of each user in *records*: address → fingerprint → key."""

    def __init__(self, records: dict[str, dict[str, OsLoginKey]]) -> None:
        self.records = records

    def profile(self, user: str, project: str) -> dict[str, Any]:
        """A LoginProfile. Every user has an account, made when it is first asked for."""
        name = _username(user)
        number = str(int(hashlib.sha256(user.encode()).hexdigest()[:7], 16))
        account = {
            "primary": True,
            "username": name,
            "uid": number,
            "gid": number,
            "homeDirectory": f"/home/{name}",
            "operatingSystemType": "LINUX",
            "accountId": project,
            "name": f"users/{user}/projects/{project}",
        }
        keys = {
            fingerprint: self.key(user, fingerprint) for fingerprint in self.records.get(user, {})
        }
        return {"name": user, "posixAccounts": [account], "sshPublicKeys": keys}

    def key(self, user: str, fingerprint: str) -> dict[str, str]:
        """A SshPublicKey."""
        path = f"users/{user}/sshPublicKeys/{fingerprint}"
        try:
            key = self.records[user][fingerprint]
        except KeyError:
            raise api_errors.not_found(path) from None
        shown = {"key": key.key, "fingerprint": fingerprint, "name": path}
        return shown | ({"expirationTimeUsec": str(key.expires)} if key.expires else {})

    def import_key(self, user: str, key: str, expires: int) -> None:
        """*expires*: microseconds since the epoch; 0: never."""
        text = key.strip()
        fingerprint = hashlib.sha256(" ".join(text.split()[:2]).encode()).hexdigest()
        self.records.setdefault(user, {})[fingerprint] = OsLoginKey(key=text, expires=expires)

    def delete_key(self, user: str, fingerprint: str) -> None:
        self.key(user, fingerprint)
        del self.records[user][fingerprint]

    def authorized(self, now: datetime) -> dict[str, list[str]]:
        """User name → the public keys that let them in now."""
        moment = int(now.timestamp() * 1e6)
        return {
            _username(user): [
                key.key for key in keys.values() if not key.expires or key.expires > moment
            ]
            for user, keys in self.records.items()
        }


def _username(user: str) -> str:
    """As Google makes it of an address: ``ann_example_com``."""
    return re.sub(r"[^a-z0-9]", "_", user.lower())[:32]


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

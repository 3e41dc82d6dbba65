"""Whose a TPU is. Google does not say who created it, so that is read from labels and SSH keys."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from ...cloud import gcloud
from ...ssh.keys import stored_public_key

#: The label with its owner on what this program creates.
OWNER = "jupyter-tpu-owner"
#: Says who uses this program, where that is none of the names below.
OWNER_VARIABLE = "JUPYTER_TPU_OWNER"
#: Labels in which people and other tools have it, in this order.
_LABELS = (OWNER, "owner", "user", "created-by", "created_by", "creator")

OwnerSource = Literal["", "label", "ssh-keys"]


class User(Struct, frozen=True):
    """Who uses this program: the name that labels have, and the public key; "" without one."""

    name: str
    key: str = ""


class Owner(Struct, frozen=True):
    """name: "" if it is not known. source: what says so; a key says only who may log in."""

    name: str = ""
    source: OwnerSource = ""
    is_me: bool = False


def current_user() -> User:
    """Reads files."""
    return User(own_name(), stored_public_key())


def own_name(environ: Mapping[str, str] = os.environ) -> str:
    """Who uses this program, as a label's value: ``JUPYTER_TPU_OWNER``, JupyterHub's user, gcloud's
    account, or the local user.
    """
    return as_label(
        environ.get(OWNER_VARIABLE)
        or environ.get("JUPYTERHUB_USER")
        or gcloud.setting("core", "account", environ)
        or _local_user()
    )


def as_label(name: str) -> str:
    """*name* as Google accepts it for a label.

    >>> as_label("Ana.Lee@example.com")
    'ana-lee_example-com'
    """
    return re.sub(r"[^-_a-z0-9]", "-", name.lower().replace("@", "_"))[:63]


def owner_of(labels: Mapping[str, str], metadata: Mapping[str, str], me: User) -> Owner:
    """The owner of what has these. Where no label says it: whose SSH key alone may log in."""
    named = next((labels[key] for key in _LABELS if labels.get(key)), "")
    if named:
        return Owner(named, "label", is_me=named == me.name)
    keys = [line for line in metadata.get("ssh-keys", "").splitlines() if ":" in line]
    users = {line.partition(":")[0].strip() for line in keys}
    if len(users) != 1:
        return Owner()
    mine = bool(me.key) and any(me.key in line.split() for line in keys)
    return Owner(users.pop(), "ssh-keys", is_me=mine)


def _local_user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, ImportError, OSError):  # the user has no name
        return ""

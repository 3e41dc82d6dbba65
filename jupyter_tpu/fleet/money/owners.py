"""Whose a TPU is. Google does not say who created it, so that is read from labels and SSH keys."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from ...cloud import Node, gcloud
from ...cloud.models import QueuedTPUs
from ...errors import Reason, TPUError
from ...ssh.keys import local_user, stored_public_key, user_name

#: The label with its owner on what this program creates.
OWNER = "jupyter-tpu-owner"
#: Has the name of the user of this program, where the names below are wrong.
OWNER_VARIABLE = "JUPYTER_TPU_OWNER"
#: Labels in which people and other tools have it, in this order.
_LABELS = (OWNER, "owner", "user", "created-by", "created_by", "creator")

#: For how long who the user is counts as known; seconds.
KNOWN = 30.0

OwnerSource = Literal["", "label", "ssh-keys"]


class User(Struct, frozen=True):
    """Who uses this program: the name that labels have, the public key ("AAAA…"; "" without one),
    and the login name on hosts.
    """

    name: str
    key: str = ""
    login: str = ""

    @property
    def short_names(self) -> tuple[str, str]:
        """What people write into labels of their own: "ana" for "ana_example-com"."""
        return self.name.partition("_")[0], self.login


class TPUOwner(Struct, frozen=True):
    """name: "" if it is not known. source: what says so; a key says only who may log in.

    is_other: whether it is another person. Not known of a key of someone with the user's name: it
    may be from another computer of the user.
    """

    name: str = ""
    source: OwnerSource = ""
    is_me: bool = False
    is_other: bool = False


UNKNOWN = TPUOwner()


class TPUOwners:
    """Whose something is. The user of this program is looked up again after a while."""

    def __init__(self) -> None:
        self._me: tuple[float, User] | None = None

    @property
    def me(self) -> User:
        now = time.monotonic()
        if self._me is None or now - self._me[0] > KNOWN:
            _, _, key = stored_public_key().partition(" ")
            self._me = now, User(own_name(), key, user_name())
        return self._me[1]

    def of(self, thing: Node | QueuedTPUs) -> TPUOwner:
        metadata = thing.metadata if isinstance(thing, Node) else {}
        return owner_of(thing.labels, metadata, self.me)

    def require_consent(self, thing: Node | QueuedTPUs, confirm_name: str) -> None:
        """Raises NOT_YOURS for another person's, unless *confirm_name* is its name."""
        owner, name = self.of(thing), thing.name.node
        if owner.is_other and confirm_name != name:
            raise TPUError(
                f"{name} belongs to {owner.name}.",
                Reason.NOT_YOURS,
                f"To continue, confirm its name: --confirm-name {name} on the command line, "
                "confirm_name over REST.",
            )


def own_name(environ: Mapping[str, str] = os.environ) -> str:
    """Who uses this program, as a label's value: ``JUPYTER_TPU_OWNER``, JupyterHub's user, gcloud's
    account, or the local user.
    """
    return as_label(
        environ.get(OWNER_VARIABLE)
        or environ.get("JUPYTERHUB_USER")
        or gcloud.setting("core", "account", environ)
        or local_user()
    )


def as_label(name: str) -> str:
    """*name* as Google accepts it for a label.

    >>> as_label("Ana.Lee@example.com")
    'ana-lee_example-com'
    """
    return re.sub(r"[^-_a-z0-9]", "-", name.lower().replace("@", "_"))[:63]


def owner_of(labels: Mapping[str, str], metadata: Mapping[str, str], me: User) -> TPUOwner:
    """The owner of what has these. Where no label says it: whose SSH key alone may log in."""
    key = next((key for key in _LABELS if labels.get(key)), "")
    if key:
        named = labels[key]
        mine = named == me.name or (key != OWNER and named in me.short_names)
        return TPUOwner(named, "label", is_me=mine, is_other=not mine)
    keys = [line for line in metadata.get("ssh-keys", "").splitlines() if ":" in line]
    users = {line.partition(":")[0].strip() for line in keys}
    if len(users) != 1:
        return UNKNOWN
    mine = bool(me.key) and any(me.key in line.split() for line in keys)
    user = users.pop()
    return TPUOwner(user, "ssh-keys", is_me=mine, is_other=not mine and user != me.login)

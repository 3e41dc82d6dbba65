"""Whose a TPU is, and how long it has been READY, which is what Google charges for.

Google does not say who created it, so that is read from labels and SSH keys.

Google reports when a node was created, and its current state. What happened between two polls is
not known. So a node that is READY in the first poll counts as READY since its creation, and one
that is later found stopped counts as READY until then.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Literal

from msgspec import Struct

from ...cloud import Node, NodeName, NodeState, gcloud, is_attached
from ...cloud.models import QueuedTPUs
from ...errors import Reason, TPUError
from ...ssh.keys import local_user, stored_public_key, user_name
from ..core.records import ReadyTimeRecord
from ..core.store import Store

#: The label with its owner on what this program creates.
OWNER = "jupyter-tpu-owner"
#: The label of TPUs that `run --once` and functions may use again, with what they are.
ONCE = "jupyter-tpu-once"
#: Has the name of the user of this program, where the names below are wrong.
OWNER_VARIABLE = "JUPYTER_TPU_OWNER"
#: Labels in which people and other tools have it, in this order.
_LABELS = (OWNER, "owner", "user", "created-by", "created_by", "creator")

#: For how long who the user is counts as known; seconds.
KNOWN_USER_SECONDS = 30.0

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
        if self._me is None or now - self._me[0] > KNOWN_USER_SECONDS:
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


class ReadyTimes:
    """How long all nodes were READY, kept in *store*."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._records = dict(store.snapshot.ready_times)

    def reload(self, ready_times: Mapping[NodeName, ReadyTimeRecord]) -> None:
        """Takes over what other processes wrote."""
        self._records = dict(ready_times)

    def observe(self, nodes: Iterable[Node], now: float) -> None:
        """Takes in what Google said of nodes. *now*: seconds since the epoch."""
        for node in nodes:
            if is_attached(node.name):
                continue  # it runs whether it is attached or not
            before = self._records.get(node.name)
            if before is not None and before.node_id != node.id:
                before = None  # another node of the same name
            after = _next(before, node, now)
            if after != before:
                self._records[node.name] = after
                self._store.save_ready_time(node.name, after)

    def forget(self, gone: Collection[tuple[NodeName, str]]) -> None:
        """The nodes of these names and ids are gone."""
        for name, id in self.tpus():
            if (name, id) in gone:
                del self._records[name]
                self._store.drop_ready_time(name)

    def tpus(self) -> list[tuple[NodeName, str]]:
        """The names and ids of the nodes whose ready time is kept."""
        return [(name, record.node_id) for name, record in self._records.items()]

    def since(self, node: Node) -> float | None:
        """Since when it is READY, in seconds since the epoch; None if it is not."""
        record = self._records.get(node.name)
        return record.since if record is not None and record.node_id == node.id else None

    def ended(self, node: Node) -> float | None:
        """When it was first seen that it is no longer READY, in seconds since the epoch; None if it
        is, or if that was not seen.
        """
        record = self._records.get(node.name)
        return record.ended if record is not None and record.node_id == node.id else None

    def seconds(self, node: Node, now: float) -> float | None:
        """How long it was READY until *now*; None if that is not known."""
        record = self._records.get(node.name)
        return _seconds(record, now) if record is not None and record.node_id == node.id else None

    def estimate(self, node: Node, now: float) -> tuple[float | None, float | None]:
        """As `since` and `seconds`; of a node that was never observed, such as one of another
        project, what the first poll would say.
        """
        record = self._records.get(node.name)
        if record is None or record.node_id != node.id:
            record = _next(None, node, now)
        return record.since, _seconds(record, now)


def _seconds(record: ReadyTimeRecord, now: float) -> float | None:
    if record.seconds is None:
        return None
    return record.seconds + (max(0.0, now - record.since) if record.since is not None else 0.0)


def _next(before: ReadyTimeRecord | None, node: Node, now: float) -> ReadyTimeRecord:
    ready = node.state is NodeState.READY
    if before is None:
        if ready:
            return ReadyTimeRecord(node_id=node.id, since=_created(node) or now, seconds=0.0)
        # One that is stopped has run for an unknown time.
        return ReadyTimeRecord(
            node_id=node.id, seconds=0.0 if node.state is NodeState.CREATING else None
        )
    if ready and before.since is None:
        return ReadyTimeRecord(node_id=node.id, since=now, seconds=before.seconds)
    if not ready and before.since is not None:
        seconds = None if before.seconds is None else before.seconds + max(0.0, now - before.since)
        return ReadyTimeRecord(node_id=node.id, seconds=seconds, ended=now)
    return before


def _created(node: Node) -> float | None:
    try:
        return datetime.fromisoformat(node.created).timestamp()
    except ValueError:
        return None

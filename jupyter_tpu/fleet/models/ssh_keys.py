"""Our SSH key, and where it is known in addition to the TPUs' own metadata."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct, field


class AddSSHKey(Struct, kw_only=True, forbid_unknown_fields=True):
    """Where to add the key that jupyter-tpu uses for TPUs."""

    #: account: your Google account, for OS Login; project: the project's metadata. auto: account if
    #: the project uses OS Login, else project.
    to: Literal["auto", "account", "project"] = "auto"
    #: For how many days it may log in.
    days: Annotated[int, Meta(ge=1, le=3650)] = 90
    #: Change nothing: the answer says what would be changed.
    dry_run: bool = False


class RemoveSSHKey(Struct, kw_only=True, forbid_unknown_fields=True):
    """The key is removed from your Google account and from the project's metadata."""

    #: Change nothing: the answer says what would be changed.
    dry_run: bool = False


class SSHKeyPlace(Struct, kw_only=True):
    """One place that lets the key log in."""

    #: The user name on hosts.
    user: str
    #: Until when, RFC 3339; "": without end.
    until: str = ""


class SSHKeyStatus(Struct, kw_only=True):
    """The key that jupyter-tpu uses for TPUs, and what lets it log in."""

    project: str
    emulated: bool
    #: As `ssh-keygen -l` prints it.
    fingerprint: str
    #: The file with the private key.
    path: str
    #: The user name on hosts without OS Login.
    user: str
    #: Whether the project uses OS Login: hosts then ignore keys in metadata.
    os_login: bool
    #: The address of your Google account; "" where it was not asked for.
    account: str = ""
    #: In the Google account; null: it is not there, or was not asked for.
    in_account: SSHKeyPlace | None = None
    #: In the project's metadata; null: it is not there.
    in_project: SSHKeyPlace | None = None
    #: What was changed, or would be (`dry_run`).
    changes: list[str] = field(default_factory=list)
    #: What one should know.
    warnings: list[str] = field(default_factory=list)

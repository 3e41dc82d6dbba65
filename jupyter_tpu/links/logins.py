"""As whom our key logs in to the hosts of a TPU.

Usually as the local user: the key is in the TPU's metadata then, or in its project's. With OS Login
Google decides: the key is in the user's Google account, and the name is Google's. What it said when
the key was added is kept here, so that connecting makes no further call.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import Struct

from ..cloud import Node, uses_os_login
from ..errors import Reason, TPUError
from ..local_files import write_atomically
from ..paths import data_dir, private_dir
from ..ssh.keys import USER_VARIABLE, user_name


class OSLogin(Struct, frozen=True, kw_only=True):
    """How our key logs in to hosts of one project that use OS Login.

    expires: when Google forgets the key, seconds since the epoch. everywhere: whether the project
    uses OS Login, and not only some of its TPUs.
    """

    user: str
    expires: float
    everywhere: bool


class Login(Struct, frozen=True):
    """os_login: None: the key is in metadata."""

    user: str
    os_login: OSLogin | None = None

    def rejected(self, label: str) -> TPUError | None:
        """Why the host *label* may have rejected our key, where OS Login decides."""
        if self.os_login is None:
            return None
        if self.os_login.expires <= time.time():
            why = "It has expired in your Google account."
        else:
            why = "The project uses OS Login."
        return TPUError(
            f"{label} rejected the SSH key for user {self.user}. {why}",
            Reason.PERMISSION,
            "Run `jupyter tpu ssh-key add`. Your account needs the role Compute OS Admin Login "
            "(roles/compute.osAdminLogin).",
        )


def login(node: Node) -> Login:
    """As whom our key logs in to the hosts of *node*."""
    known = stored(node.name.project)
    if known is None:
        return Login(user_name())
    says = uses_os_login(node.metadata)
    if not (known.everywhere if says is None else says):
        return Login(user_name())
    return Login(os.environ.get(USER_VARIABLE) or known.user, known)


def stored(project: str) -> OSLogin | None:
    """What is kept of *project*; None where our key was not added to an account for it."""
    try:
        return msgspec.json.decode(_file(project).read_bytes(), type=OSLogin)
    except (OSError, msgspec.DecodeError):
        return None


def store(project: str, login: OSLogin) -> None:
    """Raises OSError."""
    write_atomically(_file(project), msgspec.json.encode(login), durable=True)


def forget_all() -> None:
    """The key is in the account no more, and that is the same for all projects."""
    for file in _folder().glob("*.json"):
        file.unlink(missing_ok=True)


def _file(project: str) -> Path:
    return _folder() / f"{quote(project, safe='')}.json"


def _folder() -> Path:
    return private_dir(private_dir(data_dir() / "ssh") / "os-login")

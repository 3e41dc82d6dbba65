"""The agent's own files are for its user only. What it starts has the umask of the login."""

from __future__ import annotations

import os
from typing import Optional

_login: Optional[int] = None


def make_private() -> None:
    """From now on, files of this process are for its user only."""
    global _login
    _login = os.umask(0o077)


def restore() -> None:
    """Gives a process the umask that this one had before, as its ``preexec_fn``.

    `subprocess` has a parameter for that since Python 3.9 only.
    """
    if _login is not None:
        os.umask(_login)

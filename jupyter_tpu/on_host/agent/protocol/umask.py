"""The agent's own files are for its user only. What it starts has the umask of the login."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any, Dict, Optional

_login: Optional[int] = None


def make_private() -> None:
    """From now on, files of this process are for its user only."""
    global _login
    _login = os.umask(0o077)


def restore() -> None:
    """Gives this process the umask of the login again."""
    if _login is not None:
        os.umask(_login)


def of_login() -> Dict[str, Any]:
    """The parameter of `subprocess` that gives a process the umask that this one had before."""
    if _login is None:
        return {}
    if sys.version_info >= (3, 9):
        return {"umask": _login}
    # Python runs this in a copy of this process, whose other threads may have held locks.
    return {"preexec_fn": functools.partial(os.umask, _login)}

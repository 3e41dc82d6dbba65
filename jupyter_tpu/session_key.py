"""The key by which saved sessions of kernels are signed: what is restored runs as the user's code.

It is the same for all TPUs of this computer's user, so that a session saved on one of them can be
restored on another one. A kernel gets it when it starts, unless a coding agent starts it.
"""

from __future__ import annotations

import contextlib
import secrets

from .local_files import write_atomically
from .paths import data_dir

VARIABLE = "JUPYTER_TPU_SESSION_KEY"


def session_variables(*, agents: bool) -> dict[str, str]:
    """The key as a kernel's environment variable; none where it can't be stored here.

    agents: whether a coding agent starts the kernel.
    """
    if agents:
        return {}
    with contextlib.suppress(OSError):
        path = data_dir() / "session-key"
        if not path.exists():
            write_atomically(path, secrets.token_hex(32), overwrite=False)
        return {VARIABLE: path.read_text(encoding="ascii")}
    return {}

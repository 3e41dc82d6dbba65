"""The token of coding agents: a server of ours accepts it for what an agent may do, and no more.

It is in a file that only the user can read, so that the servers and commands of the user share it.
It is not a Jupyter token: it gives no access to kernels, terminals or files.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .errors import Reason, TPUError

if TYPE_CHECKING:
    from pathlib import Path

#: Set to 1, commands act as a coding agent: by this token, inside the agents' budget.
AGENT_VARIABLE = "JUPYTER_TPU_AGENT"


#: Kernelspecs of which the server has said that an agent may run code in their kernels, for what
#: starts kernels in this process.
permitted_kernelspecs: set[str] = set()


def acts_as_agent(environment: Mapping[str, str] = os.environ) -> bool:
    """Whether commands of this process, or with an *environment*, act as a coding agent."""
    return environment.get(AGENT_VARIABLE, "") not in ("", "0")


def require_person(what: str) -> None:
    """Raises PERMISSION where commands of this process act as a coding agent. *what*: it runs."""
    if acts_as_agent():
        raise refusal(what)


def refusal(what: str) -> TPUError:
    return TPUError(
        f"A coding agent may not run {what}.",
        Reason.PERMISSION,
        "Ask a person to run it. `jupyter tpu skill` shows what agents may run.",
    )


def token_file() -> Path:
    from .paths import data_dir

    return data_dir() / "agent-token"


def agent_token() -> str:
    """The token, which is made when it is first asked for. Raises OSError."""
    import secrets  # with OpenSSL, which a command that only asks `acts_as_agent` does without

    path = token_file()
    while True:
        try:
            if token := path.read_text(encoding="ascii").strip():
                return token
        except FileNotFoundError:
            pass
        new = path.with_name(f"{path.name}.{os.getpid()}")
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
        with contextlib.suppress(FileExistsError):
            os.link(new, path)  # another process may have been quicker
        new.unlink()


class AgentTokenFile:
    """The token as a server knows it, which looks at each request: the file is read again when it
    is another one.
    """

    def __init__(self) -> None:
        self._path: Path | None = None  # until the first question
        self._version: tuple[int, int] | None = None
        self._token = b""

    def has(self, token: str) -> bool:
        """Whether *token* is it; False if there is none yet, or it can't be read."""
        import hmac

        try:
            self._path = self._path or token_file()
            status = self._path.stat()
            version = status.st_ino, status.st_mtime_ns
            if version != self._version:
                self._token = self._path.read_text(encoding="ascii").strip().encode()
                self._version = version
        except (OSError, UnicodeDecodeError):
            return False
        return bool(self._token) and hmac.compare_digest(self._token, token.encode())

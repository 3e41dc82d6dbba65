"""Tokens of this computer that kernels, commands and jobs on TPUs get, such as HF_TOKEN.

What a coding agent starts gets only those that a person has also named for agents: whoever runs a
program reads its variables. Only the names are stored here. A value is read when a kernel or
command starts, and sent to the host over SSH: it becomes a variable of the process there. It is in
no file, no log and no list of processes.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import netrc
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from .errors import InvalidInput, Reason, TPUError
from .local_files import read_text, write_atomically
from .paths import data_dir

#: Variables that a host must keep as it has them.
_NOT_PASSED = re.compile(
    r"LD_.*|DYLD_.*|PYTHON.*|CONDA_(PREFIX|DEFAULT_ENV).*|VIRTUAL_ENV|SSH_.*|XDG_.*"
    r"|JPY_PARENT_PID|JUPYTER_TPU_.*|PATH|HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|TMPDIR"
)


class TokenValue(NamedTuple):
    value: str
    source: str  # where it was found, for a person


def passed_names(*, agents: bool = False) -> list[str]:
    """The variables that processes on TPUs get from this computer, in the order of choice.

    agents: only those that processes of coding agents get, too.
    """
    names = _names_in(_file())
    return [name for name in names if name in _names_in(_agents_file())] if agents else names


def _names_in(file: Path) -> list[str]:
    try:
        names = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def pass_on(*names: str, agents: bool = False) -> None:
    """From now on, what is started on a TPU gets *names*: all of them, or none if this raises.

    agents: also what coding agents start.

    Raises INVALID for what is no token's name, and DISK_FULL or PERMISSION if they can't be stored.
    """
    for name in names:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise InvalidInput(
                f"{name!r} is not the name of a variable.", "Give its name only, such as HF_TOKEN."
            )
        if _NOT_PASSED.fullmatch(name):
            raise InvalidInput(f"{name} can't be passed on: hosts have their own.")
    for file in (_file(), _agents_file()) if agents else (_file(),):
        with _changing(file) as passed:
            passed += [name for name in dict.fromkeys(names) if name not in passed]


def keep_back(name: str, *, agents: bool = False) -> bool:
    """What is started from now on does not get *name*; False: it did not before.

    agents: only what coding agents start.
    """
    passed_before = name in passed_names(agents=agents)
    for file in (_agents_file(),) if agents else (_agents_file(), _file()):
        with _changing(file) as passed:
            if name in passed:
                passed.remove(name)
    return passed_before


def passed_variables(*, agents: bool = False) -> dict[str, str]:
    """The chosen variables that have a value on this computer now, for a process on a host.

    agents: for a process of a coding agent. Reads small files: on an event loop, call it in a
    thread.
    """
    token_values = {name: find(name) for name in passed_names(agents=agents)}
    return {name: token.value for name, token in token_values.items() if token is not None}


def changed_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """What a program has added to this process's variables, or changed, for the kernel that it
    starts with *environment*, such as the parameters of a page of Voilà.
    """
    return {
        name: value
        for name, value in environment.items()
        if os.environ.get(name) != value and not _NOT_PASSED.fullmatch(name)
    }


def known_secrets() -> dict[str, str]:
    """The values that processes on hosts get, with their names: what to mask in their output. What
    is shorter than 8 characters may be any word.
    """
    return {value: name for name, value in passed_variables().items() if len(value) >= 8}


def find(name: str) -> TokenValue | None:
    """The value of a variable: this process's, or what its own program has stored here."""
    if value := os.environ.get(name):
        return TokenValue(value, "environment")
    look = _STORED.get(name)
    return look() if look is not None else None


def how_to_set(name: str) -> str:
    """What to do where `find` finds nothing."""
    login = _LOGINS.get(name)
    return f"Set it where Jupyter is started{f', or run `{login}`' if login else ''}."


def _hugging_face() -> TokenValue | None:
    """What `hf auth login` stores. Source: huggingface_hub/constants.py."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or os.path.join(cache, "huggingface")
    path = Path(os.environ.get("HF_TOKEN_PATH") or os.path.join(home, "token")).expanduser()
    try:
        value = read_text(path).strip()
    except (OSError, ValueError):
        return None
    return TokenValue(value, str(path)) if value else None


def _wandb() -> TokenValue | None:
    """What `wandb login` stores. Source: wandb/sdk/lib/wbauth."""
    path = Path(os.environ.get("NETRC") or "~/.netrc").expanduser()
    try:
        entry = netrc.netrc(path).authenticators("api.wandb.ai")
    except (OSError, ValueError, netrc.NetrcParseError):
        return None
    return TokenValue(entry[2], str(path)) if entry and entry[2] else None


_STORED: dict[str, Callable[[], TokenValue | None]] = {
    "HF_TOKEN": _hugging_face,
    "WANDB_API_KEY": _wandb,
}
_LOGINS = {"HF_TOKEN": "hf auth login", "WANDB_API_KEY": "wandb login"}


def _file() -> Path:
    return data_dir() / "tokens.json"


def _agents_file() -> Path:
    return data_dir() / "agent-tokens.json"


@contextlib.contextmanager
def _changing(path: Path) -> Iterator[list[str]]:
    """The names in a file, which are stored when they have changed; one process at a time."""
    try:
        lock = path.with_suffix(".lock")
        with open(os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600), "rb") as lock_file:
            os.fchmod(lock_file.fileno(), 0o600)  # an earlier version's may be readable by others
            fcntl.flock(lock_file, fcntl.LOCK_EX)
            before = _names_in(path)
            names = list(before)
            yield names
            if names != before:
                write_atomically(path, json.dumps(names) + "\n")
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise TPUError(
            f"{path} can't be written: {error.strerror}.",
            Reason.DISK_FULL if full else Reason.PERMISSION,
            "Free some space, then try again." if full else "Check who owns the folder.",
        ) from None

"""Tokens of this computer that kernels and commands on TPUs get, such as HF_TOKEN.

Only the names are stored here. A value is read when a kernel or command starts, and sent to the
host over SSH: it becomes a variable of the process there. It is in no file, no log and no list of
processes.
"""

from __future__ import annotations

import json
import netrc
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .errors import InvalidInput
from .files import write_atomically
from .paths import data_dir

#: Variables that a host must keep as it has them.
_NOT_PASSED = re.compile(r"LD_.*|PYTHON.*|SSH_.*|XDG_.*|PATH|HOME|USER|LOGNAME|SHELL|PWD|TMPDIR")


class Token(NamedTuple):
    value: str
    source: str  # where it was found, for a person


def passed_names() -> list[str]:
    """The variables that processes on TPUs get from this computer, in the order of choice."""
    try:
        names = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def pass_on(name: str) -> None:
    """From now on, what is started on a TPU gets *name*. Raises INVALID for what is no token's."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise InvalidInput(
            f"{name!r} is not the name of a variable.", "Give its name only, such as HF_TOKEN."
        )
    if _NOT_PASSED.fullmatch(name):
        raise InvalidInput(f"{name} can't be passed on: hosts have their own.")
    names = passed_names()
    if name not in names:
        _write([*names, name])


def keep_back(name: str) -> bool:
    """What is started from now on does not get *name*; False: it did not before."""
    names = passed_names()
    if name in names:
        _write([each for each in names if each != name])
    return name in names


def passed_variables() -> dict[str, str]:
    """The chosen variables that have a value on this computer now, for a process on a host."""
    found = {name: find(name) for name in passed_names()}
    return {name: token.value for name, token in found.items() if token is not None}


def find(name: str) -> Token | None:
    """The value of a variable: this process's, or what its own program has stored here."""
    if value := os.environ.get(name):
        return Token(value, "environment")
    look = _STORED.get(name)
    return look() if look is not None else None


def _hugging_face() -> Token | None:
    """What `hf auth login` stores. Source: huggingface_hub/constants.py."""
    cache = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    home = os.environ.get("HF_HOME") or os.path.join(cache, "huggingface")
    path = Path(os.environ.get("HF_TOKEN_PATH") or os.path.join(home, "token")).expanduser()
    try:
        value = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return None
    return Token(value, str(path)) if value else None


def _wandb() -> Token | None:
    """What `wandb login` stores. Source: wandb/sdk/lib/wbauth."""
    path = Path(os.environ.get("NETRC") or "~/.netrc").expanduser()
    try:
        found = netrc.netrc(path).authenticators("api.wandb.ai")
    except (OSError, ValueError, netrc.NetrcParseError):
        return None
    return Token(found[2], str(path)) if found and found[2] else None


_STORED: dict[str, Callable[[], Token | None]] = {
    "HF_TOKEN": _hugging_face,
    "WANDB_API_KEY": _wandb,
}


def _file() -> Path:
    return data_dir() / "tokens.json"


def _write(names: list[str]) -> None:
    write_atomically(_file(), json.dumps(names) + "\n")

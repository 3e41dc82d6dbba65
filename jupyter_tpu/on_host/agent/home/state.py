"""What this host notes of its home folders: what was chosen, and what of the bucket it has.

::

    ~/.jupyter-tpu/home/setting.json   what was chosen, and how the bucket is read: see `requests`
    ~/.jupyter-tpu/home/state.json     ids of the copies in the bucket that this disk has, and what
                                       became of the last save or restore
    ~/.jupyter-tpu/home/lock           held while something is saved or restored
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Dict, Optional

from ..protocol.digests import sha256
from ..protocol.json_file import read_json, write_json
from ..protocol.paths import host_folder, private_folder

SETTING, STATE, LOCK = "setting.json", "state.json", "lock"


def home_path(name: str) -> str:
    """A file's path; its folder may not exist yet."""
    return os.path.join(host_folder("home"), name)


def read(name: str) -> Optional[Dict[str, Any]]:
    return read_json(home_path(name))


def make_folder() -> None:
    """Makes the folder of these files, for this user only."""
    private_folder(os.path.dirname(home_path("")))


def write(name: str, content: Optional[Dict[str, Any]]) -> None:
    """Replaces a file; None removes it. Raises OSError."""
    make_folder()
    if content is None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(home_path(name))
    else:
        write_json(home_path(name), content)


def copy_of(setting: Dict[str, Any]) -> str:
    """Which copy in which bucket a setting means."""
    return "%s %s %s" % (setting["place"], setting["project"], setting["tpu"])


def known_copies(setting: Dict[str, Any]) -> "list[str]":
    """The ids of what this disk has of it: one of them is in the bucket, if that is this host's."""
    state = read(STATE) or {}
    known = state.get("copies")
    return list(known) if state.get("of") == copy_of(setting) and isinstance(known, list) else []


def note_copies(setting: Dict[str, Any], copies: "list[str]") -> None:
    """Notes this before the bucket is changed: what is killed in between knows both."""
    state = read(STATE) or {}
    write(STATE, {**state, "of": copy_of(setting), "copies": copies})


def note_outcome(outcome: Dict[str, Any]) -> None:
    write(STATE, {**(read(STATE) or {}), "outcome": outcome})


def setting_digest(setting: Dict[str, Any]) -> str:
    """A text that is another one for another setting; the client computes it as well."""
    text = json.dumps(setting, sort_keys=True)
    return sha256(text.encode())[:16]

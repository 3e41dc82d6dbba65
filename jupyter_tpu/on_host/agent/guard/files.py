"""What the guard keeps in files: the rule, which the daemon writes, and its own report.

::

    ~/.jupyter-tpu/guard/rule.json     what was chosen; the guard ends when it is removed
    ~/.jupyter-tpu/guard/report.json   what the guard has seen last, and its state
    ~/.jupyter-tpu/guard/lock          held while the guard runs; says which process that is
"""

from __future__ import annotations

import contextlib
import os
from typing import Any, Dict, Optional

from ..protocol.json_file import read_json, write_json
from ..protocol.paths import host_folder, private_folder

RULE, REPORT, LOCK = "rule.json", "report.json", "lock"


def guard_path(name: str) -> str:
    """A file's path; its folder may not exist yet."""
    return os.path.join(host_folder("guard"), name)


def make_folder() -> None:
    """Makes the folder of these files, for this user only."""
    private_folder(os.path.dirname(guard_path("")))


def read(name: str) -> Optional[Dict[str, Any]]:
    """The content of a file; None if there is none, or it is damaged."""
    return read_json(guard_path(name))


def exists(name: str) -> bool:
    """Whether there is such a file, which may be damaged, or can't be read for now."""
    return os.path.lexists(guard_path(name))


def write(name: str, content: Dict[str, Any]) -> None:
    """Replaces a file; raises OSError, and then the old one is still there."""
    make_folder()
    write_json(guard_path(name), content)


def remove(name: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(guard_path(name))

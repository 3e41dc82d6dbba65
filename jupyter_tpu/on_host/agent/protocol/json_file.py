"""A JSON object in a file, replaced in one step."""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any, Dict, Optional


def read_json(path: str) -> Optional[Dict[str, Any]]:
    """The object in *path*; None if there is none, or the file is damaged."""
    try:
        with open(path) as file:
            content = json.load(file)
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def write_json(path: str, content: Dict[str, Any]) -> None:
    """Replaces *path*, and it is on the disk then. Raises OSError: the old file is still there."""
    part = path + ".new"
    try:
        with open(part, "w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise

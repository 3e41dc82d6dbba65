"""Other Pythons of this machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest


def python_of(version: str) -> str:
    """The path of a Python of that version; skips the test if there is none."""
    pythons = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python3"))
    if path := pythons[0] if pythons else shutil.which(f"python{version}"):
        return str(path)
    pytest.skip(f"SKIPPED FOR WANT OF Python {version}")

"""What one emulator's hosts have downloaded is there for those of all others of a test run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from jupyter_tpu.emulator.hosts.host_files import CACHE, open_for_all

#: What a host runs to have an environment for kernels.
MAKE_ENVIRONMENT = """
python="$(readlink -f "$(command -v python3.11 || command -v python3)")"
"$python" -m pip install -q --target ~/uv uv
~/uv/bin/uv venv -q --python "$python" ~/env
~/uv/bin/uv pip install -q --python ~/env/bin/python ipykernel ipywidgets
"""


def share_packages(state: Path, folders: pytest.TempPathFactory) -> None:
    """Before the first start of the emulator of *state*: gives it the uv cache of all."""
    base = folders.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / CACHE
    shared.mkdir(exist_ok=True)
    open_for_all(shared)
    for folder in (state.parent, state):
        folder.mkdir(mode=0o700, exist_ok=True)
    (state / CACHE).symlink_to(shared)

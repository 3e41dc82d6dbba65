"""The folder of jupyter-tpu's files on this machine, which only its owner can read."""

from __future__ import annotations

import os
from pathlib import Path


def data_dir() -> Path:
    """The folder of keys, known hosts and desired state, created with mode 0700.

    ``JUPYTER_TPU_DATA_DIR``, or ``tpu`` in the user's Jupyter data folder.
    """
    chosen = os.environ.get("JUPYTER_TPU_DATA_DIR")
    if chosen:
        folder = Path(chosen)
    else:
        from jupyter_core.paths import jupyter_data_dir

        folder = Path(jupyter_data_dir()) / "tpu"
    return private_dir(folder)


def private_dir(folder: Path) -> Path:
    """Creates *folder*, with mode 0700, and its parents if they are missing."""
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder

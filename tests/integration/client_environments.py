"""Environments with jupyter-tpu and another program that uses its kernels, made by uv."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")


def client_environment(folder: Path, *packages: str, with_tpu: bool = True) -> Path:
    """The ``bin`` of a new environment in *folder* that has *packages*, with jupyter-tpu or not."""
    made = [UV, "venv", "--quiet", "--python", sys.executable, folder]
    subprocess.run(made, check=True, timeout=300)
    python = folder / "bin" / "python"
    ours = ["--editable", str(ROOT)] if with_tpu else []
    install = [UV, "pip", "install", "--quiet", "--python", python, *ours, *packages]
    done = subprocess.run(install, capture_output=True, text=True, timeout=900, check=False)
    if done.returncode:
        pytest.fail(done.stderr)
    return python.parent

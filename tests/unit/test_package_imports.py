"""What importing the package costs: heavy libraries load when they are first used."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("jax", "google.cloud", "grpc", "asyncssh", "aiohttp", "numpy", "IPython")


def loaded_by(statement: str) -> set[str]:
    code = f"{statement}; import sys; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(out.stdout.split())


@pytest.mark.parametrize(
    "module", ["jupyter_tpu", "jupyter_tpu.cli", "jupyter_tpu.fleet", "jupyter_tpu.links"]
)
def test_importing_a_room_loads_no_heavy_library(module: str) -> None:
    assert loaded_by(f"import {module}") == set()


def test_loading_the_server_extension_loads_no_heavy_library_of_ours() -> None:
    before = loaded_by("import jupyter_server.serverapp")
    assert loaded_by("import jupyter_server.serverapp, jupyter_tpu.server") == before

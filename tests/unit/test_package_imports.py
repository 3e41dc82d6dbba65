"""What importing the package costs: heavy libraries load when they are first used."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from jupyter_tpu.cli.root import COMMANDS

HEAVY = ("jax", "google.cloud", "grpc", "asyncssh", "aiohttp", "numpy", "IPython")
#: The command line's libraries.
TERMINAL = ("click", "rich")


def loaded_by(statement: str, libraries: Sequence[str] = HEAVY) -> set[str]:
    code = f"{statement}; import sys; print(*[m for m in {libraries!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(out.stdout.split())


@pytest.mark.parametrize(
    "module", ["jupyter_tpu", "jupyter_tpu.cli", "jupyter_tpu.fleet", "jupyter_tpu.links"]
)
def test_importing_a_room_loads_no_heavy_library(module):
    assert loaded_by(f"import {module}") == set()


def test_loading_the_server_extension_loads_no_heavy_library_and_no_models_of_ours():
    before = loaded_by("import jupyter_server.serverapp")
    not_ours = (*HEAVY, "msgspec", "jupyter_tpu.fleet", "jupyter_tpu.jaxkit", "jupyter_tpu.cloud")
    assert loaded_by("import jupyter_server.serverapp, jupyter_tpu.server", not_ours) == before


@pytest.mark.parametrize(
    "module",
    [
        "language",
        "tpu",
        *(f"commands.{name}" for name in ("held_tpu", "job_export", "once_tpu", "run_output")),
        *(f"terminal.{name}" for name in ("costs", "language", "selection")),
        *(f"terminal.{name}" for name in ("session", "streams", "tables", "times")),
    ],
)
def test_programs_use_it_without_the_command_lines_libraries(module):
    assert loaded_by(f"import jupyter_tpu.{module}", TERMINAL) == set()


def test_a_command_is_in_the_file_of_its_name():
    folder = Path(__file__).parents[2] / "jupyter_tpu" / "commands"
    names = {name.replace("-", "_") for name in COMMANDS} - {"mcp"}  # a room of its own
    assert names <= {file.stem for file in folder.glob("*.py")}

"""What one emulator's hosts have downloaded and compiled is there for those of all others.

It stays in the virtual environment that the tests run in, for the next run. ``python
shared_packages.py`` fills it, so that the first tests of a run do not all do so at the same time.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import pytest

from jupyter_tpu.emulator.hosts.host_files import CACHE, open_for_all

#: Nobody else of this machine can get into it: what is below is open for the users of hosts.
PRIVATE = Path(sys.prefix, "emulated-hosts")

#: What a host runs to have an environment for kernels.
MAKE_ENVIRONMENT = """
python="$(readlink -f "$(command -v python3.11 || command -v python3)")"
"$python" -m pip install -q --target ~/uv uv
~/uv/bin/uv venv -q --python "$python" ~/env
~/uv/bin/uv pip install -q --python ~/env/bin/python ipykernel ipywidgets
"""
#: What kernels and tests import there, to be compiled.
IMPORTS = "import IPython.core.interactiveshell, ipykernel.kernelapp, jax.numpy, jax.experimental"


def share_packages(state: Path, folders: pytest.TempPathFactory) -> None:
    """Before the first start of the emulator of *state*: gives it the uv cache of all."""
    if sys.prefix != sys.base_prefix and os.access(sys.prefix, os.W_OK):
        _share(state, PRIVATE)
    else:
        base = folders.getbasetemp()
        _share(state, base.parent if "PYTEST_XDIST_WORKER" in os.environ else base)


def _share(state: Path, private: Path) -> None:
    shared = private / CACHE
    private.mkdir(mode=0o700, exist_ok=True)
    shared.mkdir(exist_ok=True)
    open_for_all(shared)
    hosts = state / "hosts"  # as `StateFolder` has them
    for folder in (state.parent, state, hosts):
        folder.mkdir(mode=0o700, exist_ok=True)
    (hosts / CACHE).symlink_to(shared)


def _fill(folder: Path) -> None:
    """Connects a TPU as a user does, and makes another environment as tests do."""
    from adoption_server import Server
    from conftest import EmulatorProcess

    _share(folder / "emulator" / "state", PRIVATE)
    os.environ["JUPYTER_TPU_PROJECT_SYNC"] = "off"
    emulator = EmulatorProcess(folder / "emulator" / "state")
    try:
        with Server(folder / "server", emulator.environment) as server:
            server.connect_tpu("first")
            make = MAKE_ENVIRONMENT.replace("ipykernel ipywidgets", "ipykernel ipywidgets jax")
            server.on_host("first", 0, "sh", "-ec", make)
            for python in ("~/.jupyter-tpu/environments/default/bin/python", "~/env/bin/python"):
                server.on_host("first", 0, "sh", "-c", f"{python} -c '{IMPORTS}'")
            server.delete_tpu("first")
    finally:
        emulator.stop()


if __name__ == "__main__":
    if not (PRIVATE / CACHE).exists():
        with tempfile.TemporaryDirectory() as folder:
            _fill(Path(folder))

"""What one emulator's hosts have downloaded and compiled is there for those of all others.

It stays in the virtual environment that the tests run in, for the next run.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from jupyter_tpu.emulator.hosts.host_files import CACHE, open_for_all

#: Nobody else of this machine can get into it: what is below is open for the users of hosts.
PRIVATE = Path(sys.prefix, "emulated-hosts")

#: What a host runs to have an environment for kernels, with its newest Python. The first one
#: installs uv for all.
MAKE_ENVIRONMENT = """
for name in python3 python3.12 python3.13 python3.14; do
    python="$(command -v $name || echo "$python")"
done
python="$(readlink -f "$python")"
uv="$UV_CACHE_DIR/for-tests"
if ! [ -x "$uv/bin/uv" ]; then
    new="$(mktemp -d "$uv.XXXXXX")"
    chmod 755 "$new"
    "$python" -m pip install -q --target "$new" uv
    mv -T "$new" "$uv" || rm -rf "$new"
fi
"$uv/bin/uv" venv -q --python "$python" ~/env
"$uv/bin/uv" pip install -q --python ~/env/bin/python ipykernel ipywidgets
"""


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

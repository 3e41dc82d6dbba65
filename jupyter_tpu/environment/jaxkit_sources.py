"""The sources of ``from jupyter_tpu import jaxkit``, for the hosts' environments."""

from __future__ import annotations

import base64
from functools import cache
from pathlib import Path

from ..agent.bundle import Bundle

#: What it needs of this package: not the server, and of jaxkit not what only the server uses.
_SOURCES = (
    "__init__.py",
    "_version.py",
    "version.py",
    "errors.py",
    "wording.py",
    "files.py",
    "catalog/*.py",
    "jaxkit/**/*.py",
)
_ONLY_SERVER = "jaxkit/rest/"

#: What it imports in addition to JAX.
REQUIREMENTS = ("msgspec", "numpy")


@cache
def jaxkit_bundle() -> Bundle:
    """Them; a new version has a new hash."""
    top = Path(__file__).parents[1]
    names = {path.relative_to(top).as_posix() for source in _SOURCES for path in top.glob(source)}
    return Bundle(
        {
            f"{top.name}/{name}": (top / name).read_bytes()
            for name in names
            if not name.startswith(_ONLY_SERVER)
        }
    )


@cache
def jaxkit_sources() -> tuple[str, str]:
    """Their hash, and `Bundle.data` of them in base64."""
    packed = jaxkit_bundle()
    return packed.hash, base64.b64encode(packed.data).decode()

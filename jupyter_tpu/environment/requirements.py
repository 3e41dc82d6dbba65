"""What is installed in an environment: as requirements files, and the sources of ``from jupyter_tpu
import jaxkit``.
"""

from __future__ import annotations

import base64
import re
from functools import cache
from pathlib import Path

from ..on_host.environments.indexes import OPTIONS
from ..on_host.environments.packages import name_of
from ..on_host.environments.pytorch import INDEX, noted_with
from ..on_host.packing import Bundle
from .models import EnvironmentSpec, Framework

#: The oldest JAX that jupyter-tpu is tested with: pyproject.toml.
OLDEST_JAX = (0, 9)


def requirements(spec: EnvironmentSpec, *, emulated: bool) -> str:
    """A requirements file: what every environment has, and what the user wants.

    libtpu comes from the package index with ``jax[tpu]`` since JAX 0.5; no page of links is
    needed any more.
    """
    kernel = ["ipykernel", "pyzmq", "ipywidgets"]
    notebook = ["cloudpickle", "matplotlib", "tensorstore", "tqdm"]
    own = (spec.requirements or "").strip()
    if framework_of(spec) == "torch":
        # Not jaxkit. What PyTorch's own packages are compiled for has to be the CPU, too.
        packages = [noted_with(INDEX, each) for each in ("torch", *spec.packages)]
        return "\n".join([*packages, "torch_tpu", *kernel, *notebook, "numpy", own, ""])
    jax = "jax" if emulated else "jax[tpu]"
    return "\n".join([jax, *kernel, *notebook, *REQUIREMENTS, *spec.packages, own, ""])


def framework_of(spec: EnvironmentSpec) -> Framework:
    """What was asked for, or what its lock has."""
    locked = any(name_of(line) == "torch-tpu" for line in (spec.lock or "").splitlines())
    return spec.framework or ("torch" if locked else "jax")


def index_options(requirements: str) -> list[str]:
    """The lines of a requirements file that say where packages come from."""
    return [line for line in requirements.splitlines() if OPTIONS.match(line)]


def without_libtpu(lock: str) -> str:
    """A lock for a host without chips."""
    lines = (line for line in lock.splitlines() if not re.match(r"libtpu\b", line))
    return "\n".join(re.sub(r"^jax\[tpu\]", "jax", line) for line in lines)


#: What it needs of this package: not the server, and of jaxkit not what only the server uses.
_SOURCES = (
    "__init__.py",
    "_version.py",
    "version.py",
    "errors.py",
    "wording.py",
    "local_files.py",
    "lazy.py",
    "python_command.py",
    "catalog/*.py",
    "jaxkit/**/*.py",
)
_ONLY_SERVER = "jaxkit/rest/"
_COMPILER = ("jaxkit/compile/", "jaxkit/processes/")

#: What it imports in addition to JAX.
REQUIREMENTS = ("msgspec", "numpy")


@cache
def jaxkit_bundle(*, compiles: bool = True) -> Bundle:
    """Them; a new version has a new hash. Without what *compiles* for TPUs it is half as large."""
    left_out = (_ONLY_SERVER,) if compiles else (_ONLY_SERVER, *_COMPILER)
    top = Path(__file__).parents[1]
    names = {path.relative_to(top).as_posix() for source in _SOURCES for path in top.glob(source)}
    return Bundle(
        {
            f"{top.name}/{name}": (top / name).read_bytes()
            for name in names
            if not name.startswith(left_out)
        }
    )


@cache
def jaxkit_sources() -> tuple[str, str]:
    """Their hash, and `Bundle.data` of them in base64."""
    packed = jaxkit_bundle()
    return packed.hash, base64.b64encode(packed.data).decode()

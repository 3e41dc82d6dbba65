"""What is installed in an environment, as requirements files."""

from __future__ import annotations

import re

from .jaxkit_sources import REQUIREMENTS
from .models import EnvironmentSpec


def requirements(spec: EnvironmentSpec, *, emulated: bool) -> str:
    """A requirements file: what every environment has, and what the user wants.

    libtpu comes from the package index with ``jax[tpu]`` since JAX 0.5; no page of links is
    needed any more.
    """
    kernel = ["jax" if emulated else "jax[tpu]", "ipykernel", "pyzmq", "ipywidgets"]
    notebook = ["cloudpickle", "matplotlib", "tqdm", *REQUIREMENTS]
    return "\n".join([*kernel, *notebook, *spec.packages, spec.requirements.strip(), ""])


def index_options(requirements: str) -> list[str]:
    """The lines of a requirements file that say where packages come from."""
    pattern = (
        r"\s*(-i|-f|--(extra-|default-)?index(-url)?|--find-links|--no-index|--trusted-host)\b"
    )
    return [line for line in requirements.splitlines() if re.match(pattern, line)]


def without_libtpu(lock: str) -> str:
    """A lock for a host without chips."""
    lines = (line for line in lock.splitlines() if not re.match(r"libtpu\b", line))
    return "\n".join(re.sub(r"^jax\[tpu\]", "jax", line) for line in lines)

"""The clean environment variables of keepers and kernels."""

from __future__ import annotations

import os
from typing import Dict, Mapping

#: Not passed on: they belong to one SSH session, or to another Python.
_EXCLUDED = ("PYTHONHOME", "PYTHONPATH", "PYTHONEXECUTABLE", "PYTHONSTARTUP", "VIRTUAL_ENV",
             "CONDA_PREFIX", "XDG_SESSION_ID", "XDG_SESSION_TYPE", "XDG_SESSION_CLASS", "MAIL",
             "OLDPWD", "SHLVL", "_")  # fmt: skip


def without_allocator(environment: Mapping[str, str]) -> Dict[str, str]:
    """*environment* without TCMalloc in LD_PRELOAD, which TPU VM images put into every login.

    It breaks processes whose libraries use another allocator. Other entries are kept.
    """
    clean = dict(environment)
    entries = clean.get("LD_PRELOAD", "").replace(":", " ").split()
    kept = [entry for entry in entries if "tcmalloc" not in os.path.basename(entry)]
    if kept:
        clean["LD_PRELOAD"] = " ".join(kept)
    else:
        clean.pop("LD_PRELOAD", None)
    return clean


def kernel_environment(python: str) -> Dict[str, str]:
    """The variables for a kernel of the environment of *python*.

    TPU_* and JAX_* stay as the host has them. JAX's persistent compilation cache is on.
    """
    environment = {
        name: value
        for name, value in without_allocator(os.environ).items()
        if name not in _EXCLUDED and not name.startswith("SSH_")
    }
    folder = os.path.dirname(os.path.abspath(python))
    environment["PATH"] = folder + os.pathsep + environment.get("PATH", "/usr/bin:/bin")
    if os.path.exists(os.path.join(os.path.dirname(folder), "pyvenv.cfg")):
        environment["VIRTUAL_ENV"] = os.path.dirname(folder)
    cache = os.path.join(os.path.expanduser("~"), ".cache", "jupyter-tpu", "jax")
    environment.setdefault("JAX_COMPILATION_CACHE_DIR", cache)
    return environment

"""The clean environment variables of whatever runs on a host: kernels, jobs, commands, shells.

It imports little: each command that begins on a host without an agent waits for it.
"""

from __future__ import annotations

import contextlib
import os

TYPE_CHECKING = False  # that of `typing`, which takes longer to import than all the rest
if TYPE_CHECKING:
    from typing import Dict, Mapping, Optional

#: Not passed on: they belong to one SSH session, or to another Python.
_EXCLUDED = ("PYTHONHOME", "PYTHONPATH", "PYTHONEXECUTABLE", "PYTHONSTARTUP", "VIRTUAL_ENV",
             "CONDA_PREFIX", "XDG_SESSION_ID", "XDG_SESSION_TYPE", "XDG_SESSION_CLASS", "MAIL",
             "OLDPWD", "SHLVL", "_")  # fmt: skip
#: The newer and the older name of one variable of libtpu, of which versions read either.
_SAME = (
    ("TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES"),
    ("TPU_CHIPS_PER_PROCESS_BOUNDS", "TPU_CHIPS_PER_HOST_BOUNDS"),
    ("TPU_PROCESS_BOUNDS", "TPU_HOST_BOUNDS"),
)
#: The layout of the chips that a process sees, by their number and the number of the host's chips.
#: Where several are possible, libtpu decides. Sources: Ray (1 and 2 chips), pytorch/xla#7714 (4 of
#: 4), vllm's tpu-inference (4 of 8). No one has tried 8 of 8 for us, nor any of these on hardware.
BOUNDS = {(1, 1): "1,1,1", (1, 4): "1,1,1", (1, 8): "1,1,1", (2, 4): "1,2,1", (2, 8): "1,2,1",
          (4, 4): "2,2,1", (4, 8): "1,4,1", (8, 8): "2,4,1"}  # fmt: skip
#: The chips of these are in one row. Source: jax/_src/test_multiprocess.py of JAX 0.12.0.1, which
#: has a host of TPU 8t as one of TPU7x.
_IN_A_ROW = ("TPU8i",)
#: TorchTPU warns without TCMalloc, which TPU VM images have. Source: its ``_tcmalloc_check.py``.
_TCMALLOC = (
    "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4",
    "/usr/lib/x86_64-linux-gnu/libtcmalloc.so.4",
)
#: On an emulated host: the folder of what stands in for libtpu's metrics in processes with JAX.
_PLUGINS = "JUPYTER_TPU_EMULATED_PLUGINS"
#: Below the home: what `on_host.ray.node` writes while Ray runs on a host.
RAY_STATE = (".jupyter-tpu", "ray", "state.json")
#: The folder of JAX's compilation cache, in an environment that jupyter-tpu created.
CACHE = "jax-cache"


def process_environment(
    python: str = "",
    variables: Optional[Mapping[str, str]] = None,
    base: Optional[Mapping[str, str]] = None,
) -> Dict[str, str]:
    """The variables for a process on this host, which uses the environment of *python*.

    Without TCMalloc, if TorchTPU is not installed there, and what belongs to a login or another
    Python. TPU_* and JAX_* stay as the host has them. The environment's commands come first in
    PATH, and JAX's persistent compilation cache is on.

    Parameters
    ----------
    python: the path of the environment's interpreter; "": of none.
    variables: more variables; they win.
    base: what to start from; None: the variables of this process.
    """
    environment = {
        name: value
        for name, value in without_allocator(os.environ if base is None else base).items()
        if name not in _EXCLUDED and not name.startswith("SSH_")
    }
    if python:
        folder = os.path.dirname(os.path.abspath(python))
        environment["PATH"] = folder + os.pathsep + environment.get("PATH", "/usr/bin:/bin")
        if os.path.exists(os.path.join(os.path.dirname(folder), "pyvenv.cfg")):
            environment["VIRTUAL_ENV"] = os.path.dirname(folder)
        allocator = next(filter(os.path.exists, _TCMALLOC), "")
        if allocator and _has_torch_tpu(os.path.dirname(folder)):
            entries = environment.get("LD_PRELOAD", ""), allocator
            environment["LD_PRELOAD"] = " ".join(filter(None, entries))
    if _PLUGINS in environment:
        environment["PYTHONPATH"] = environment[_PLUGINS]
    _add_ours(environment)
    return {**complete_variables(environment), **complete_variables(variables or {})}


def _has_torch_tpu(prefix: str) -> bool:
    """Whether the environment at *prefix* has TorchTPU."""
    with contextlib.suppress(OSError):
        return any(
            os.path.isdir(os.path.join(prefix, "lib", name, "site-packages", "torch_tpu"))
            for name in os.listdir(os.path.join(prefix, "lib"))
            if name.startswith("python3")
        )
    return False


def login_environment() -> Dict[str, str]:
    """The variables for a shell in which someone types: those of this login, made clean."""
    environment = without_allocator(os.environ)
    _add_ours(environment)
    return complete_variables(environment)


def _add_ours(environment: Dict[str, str]) -> None:
    """Adds what kernels, jobs and shells have on each host that is ours."""
    environment.setdefault("JAX_COMPILATION_CACHE_DIR", _cache(environment.get("VIRTUAL_ENV", "")))
    if os.path.exists(os.path.join(os.path.expanduser("~"), *RAY_STATE)):
        # Without it Ray's own commands, and ray.init() before 2.59, do not send the token.
        environment.setdefault("RAY_AUTH_MODE", "token")


def complete_variables(variables: Mapping[str, str], root: str = "/") -> Dict[str, str]:
    """*variables*, where one that libtpu has renamed has both names, and chips have a layout.

    Without the names, a host's own older one could contradict what was asked for. If only chips are
    chosen (TPU_VISIBLE_CHIPS), libtpu would expect all chips of the host, or all hosts of a pod.
    *root* is the host's root folder.
    """
    complete = _with_both_names(variables)
    visible = [chip for chip in complete.get("TPU_VISIBLE_CHIPS", "").split(",") if chip.strip()]
    if visible and "TPU_CHIPS_PER_PROCESS_BOUNDS" not in complete:
        from .chips import chips

        generations = chips(root)
        if (len(visible), len(generations)) in BOUNDS:
            bounds = bounds_of(len(visible), len(generations), generations[0])
            complete["TPU_CHIPS_PER_PROCESS_BOUNDS"] = bounds
            complete.setdefault("TPU_PROCESS_BOUNDS", "1,1,1")
            complete = _with_both_names(complete)
    return complete


def bounds_of(count: int, of: int, generation: str) -> str:
    """The layout of *count* chips of a host with *of*, which `BOUNDS` has; "" for a generation that
    is not known.
    """
    return "%d,1,1" % count if generation in _IN_A_ROW else BOUNDS[count, of]


def _with_both_names(variables: Mapping[str, str]) -> Dict[str, str]:
    complete = dict(variables)
    for names in _SAME:
        for name, other in (names, names[::-1]):
            if name in variables:
                complete.setdefault(other, variables[name])
    return complete


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


def _cache(environment: str) -> str:
    """Where JAX keeps compiled programs: in an environment of ours, and deleted with it.

    In one that was found on the host nothing is written.
    """
    ours = os.path.join(os.path.expanduser("~"), ".jupyter-tpu", "environments")
    if environment and os.path.dirname(environment) == ours:
        return os.path.join(environment, CACHE)
    return os.path.join(os.path.expanduser("~"), ".cache", "jupyter-tpu", "jax")

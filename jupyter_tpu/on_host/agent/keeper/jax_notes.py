"""Warnings of a kernel about JAX, each once: a fork that can hang, and the CPU instead of the TPU.

Loaded by `ipython_kernel` in the environment's own Python. It never imports or starts JAX: it looks
only at a JAX that cells have started.
"""

import glob
import os
import sys
import warnings

FORK = (
    "Warning: this process was forked after JAX started, so the child can hang. Start processes "
    "with spawn: multiprocessing.get_context('spawn'), or multiprocessing_context='spawn' of a "
    "DataLoader."
)
#: Modules that run another program right after a fork, as `!command` does: that is harmless.
_HARMLESS = ("pexpect", "ptyprocess", "pty", "subprocess")


def load(shell):
    """Prepares IPython's *shell*; called once by the launcher."""
    # JAX's own words for each fork, harmless or not. Ours are said instead.
    warnings.filterwarnings("ignore", r"os\.fork\(\) was called", RuntimeWarning)
    said = set()

    def after_fork():
        if "fork" not in said and started_backends() and not _runs_program(sys._getframe(1)):
            said.add("fork")
            print(FORK, file=sys.stderr)

    def after_cell(*_):
        if started_backends():
            shell.events.unregister("post_run_cell", after_cell)
            note = fallback_note()
            if note:
                print(note, file=sys.stderr)

    os.register_at_fork(after_in_parent=after_fork)
    shell.events.register("post_run_cell", after_cell)


def started_backends():
    """The backends that JAX has started, by name; {} if it is not imported or not started."""
    return getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None) or {}


def fallback_note():
    """What to say if JAX has chosen the CPU although this host has chips; "" if it has not.

    Nothing is said where the CPU was asked for, and on emulated hosts.
    """
    devices = glob.glob("/dev/accel[0-9]*") + glob.glob("/dev/vfio/[0-9]*")
    platforms = os.environ.get("JAX_PLATFORMS", "") or _configured_platforms()
    if (
        "tpu" in started_backends()
        or not devices
        or (platforms and "tpu" not in platforms.split(","))
        or os.environ.get("JUPYTER_TPU_EMULATED") == "1"
    ):
        return ""
    errors = getattr(sys.modules["jax._src.xla_bridge"], "_backend_errors", None) or {}
    why = str(errors.get("tpu", "")).strip().partition("\n")[0]
    return (
        "Warning: JAX uses the CPU in this kernel, not the TPU%s. To see why, run "
        "`jupyter tpu doctor %s` in a terminal on your computer."
        % (" (%s)" % why if why else "", os.environ.get("JUPYTER_TPU_NAME", "NAME"))
    )


def _configured_platforms():
    return getattr(getattr(sys.modules.get("jax"), "config", None), "jax_platforms", None) or ""


def _runs_program(frame):
    while frame is not None:
        if frame.f_globals.get("__name__", "").partition(".")[0] in _HARMLESS:
            return True
        frame = frame.f_back
    return False

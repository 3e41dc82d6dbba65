"""What decides whether JAX can use the TPU of this host: chips, their holders, variables."""

import os

from jupyter_tpu.agent.protocol.chips import chip_devices, chips, lock_file

from .holding import all_holders

#: Variables of a login that change how JAX and libtpu start.
_PREFIXES = ("JAX_", "TPU_", "LIBTPU_", "XLA_", "MEGASCALE_", "ALLOW_MULTIPLE_LIBTPU_LOAD")
_NAMES = ("LD_PRELOAD", "CLOUD_TPU_TASK_ID")


def hardware(root="/"):
    """Facts about the chips below the folder *root*, and what stands between them and JAX."""
    return {
        "chips": chips(root),
        "device_files": chip_devices(root),
        "holders": all_holders(root)["holders"],
        "lock": dict(lock_file(root), protected=_protected(root)),
        "variables": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(_PREFIXES) or name in _NAMES
        },
        "no_library": _missing(os.environ.get("TPU_LIBRARY_PATH", "")),
        "emulated": os.environ.get("JUPYTER_TPU_EMULATED") == "1",
    }


def _protected(root):
    """Whether nobody, not even root, can open another user's file in /tmp to lock it."""
    try:
        with open(os.path.join(root, "proc/sys/fs/protected_regular")) as file:
            return file.read().strip() not in ("", "0")
    except OSError:
        return False


def _missing(path):
    return path if path and not os.path.exists(path) else ""

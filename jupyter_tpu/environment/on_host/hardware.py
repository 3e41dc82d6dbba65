"""What decides whether JAX can use the TPU of this host: chips, their holders, variables."""

import os
import re

from jupyter_tpu.agent.protocol.chips import chips

from .chip_holders import all_holders

#: Variables of a login that change how JAX and libtpu start.
_PREFIXES = ("JAX_", "TPU_", "LIBTPU_", "XLA_", "MEGASCALE_", "ALLOW_MULTIPLE_LIBTPU_LOAD")
_NAMES = ("LD_PRELOAD", "CLOUD_TPU_TASK_ID")


def hardware(root="/"):
    """Facts about the chips below the folder *root*, and what stands between them and JAX."""
    held = all_holders(root)
    return {
        "chips": chips(root),
        "device_files": held["devices"],
        "holders": held["holders"],
        "complete": held["complete"],
        "lock": held["lock"],
        "variables": {
            name: value
            for name, value in sorted(os.environ.items())
            if name.startswith(_PREFIXES) or name in _NAMES
        },
        "no_library": _missing([os.environ.get("TPU_LIBRARY_PATH", "")]),
        "no_preload": _missing(
            path
            for path in re.split("[: ]+", os.environ.get("LD_PRELOAD", ""))
            if path.startswith("/") and "$" not in path
        ),
        "emulated": os.environ.get("JUPYTER_TPU_EMULATED") == "1",
    }


def _missing(paths):
    return next((path for path in paths if path and not os.path.exists(path)), "")

"""What decides whether JAX can use the TPU of this host: chips, their holders, variables."""

import os
import re
import stat

from jupyter_tpu.agent.protocol.chips import LOCK, chips, lock_holders, user_name

from .holding import all_holders

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
        "lock": _lock(root),
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


def _lock(root):
    """libtpu's lock file: its ``owner``, whether it is ``held``, and whom it ``blocks`` while it is
    not: this user, and root; {} if it does not exist.
    """
    path = root.rstrip("/") + LOCK
    try:
        file, folder = os.stat(path), os.stat(os.path.dirname(path))
    except OSError:
        return {}
    protected = _protects(root, folder.st_mode)

    def blocks(user):
        # libtpu opens it to create it. Source: the kernel's may_create_in_sticky.
        if protected and file.st_uid not in (user, folder.st_uid):
            return True
        return user not in (0, file.st_uid) and file.st_mode & 0o006 != 0o006

    return {
        "owner": user_name(file.st_uid),
        "held": bool(lock_holders(root)),
        "blocks_user": blocks(os.getuid()),
        "blocks_root": blocks(0),
    }


def _protects(root, mode):
    """Whether the system opens an existing file in a folder with this mode only for its owner, even
    to root, where it could be created: fs.protected_regular.
    """
    try:
        with open(os.path.join(root, "proc/sys/fs/protected_regular")) as file:
            level = int(file.read())
    except (OSError, ValueError):
        return False
    writable = mode & 0o002 or (level > 1 and mode & 0o020)
    return bool(level and mode & stat.S_ISVTX and writable)

"""Our own SSH key, the login name, and fingerprints of keys.

One ed25519 key is used for all TPUs. It is created when it is first needed, readable by its owner
only. A key file that others can read is not used, as in OpenSSH, and its mode is not changed.
"""

from __future__ import annotations

import base64
import binascii
import getpass
import hashlib
import os
import re
import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import Reason, TPUError
from ..local_files import write_atomically
from ..paths import data_dir, private_dir

if TYPE_CHECKING:
    from asyncssh import SSHKey

KEY_VARIABLE = "JUPYTER_TPU_SSH_KEY"
USER_VARIABLE = "JUPYTER_TPU_SSH_USER"

#: The login name if the local one can't be used: root may not log in to TPU VMs.
_PLAIN_USER = "tpu"


def key_path(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the private key is: ``JUPYTER_TPU_SSH_KEY``, else in our data folder."""
    chosen = environ.get(KEY_VARIABLE)
    return Path(chosen).expanduser() if chosen else data_dir() / "ssh" / "id_ed25519"


def ensure_key(path: Path | None = None) -> Path:
    """The private key's path; the key and its ``.pub`` are created if they are missing.

    Raises KEY_FILE for a file that others can read, that is not a private key, that needs a
    passphrase, or that can't be created.
    """
    path = path if path is not None else key_path()
    try:
        if not path.exists():
            _create(path)
        key = load_key(path)
        public = path.with_name(path.name + ".pub")
        if not public.exists():
            write_atomically(public, public_line(key) + "\n", mode=0o644, overwrite=False)
    except OSError as error:
        raise TPUError(
            f"The SSH key {path} can't be used: {error.strerror or error}.",
            Reason.KEY_FILE,
            "Give yourself permission to read and write the file and its folder.",
        ) from error
    return path


def load_key(path: Path) -> SSHKey:
    """Reads the private key at *path*; raises KEY_FILE, or OSError where it can't be read."""
    from .library import asyncssh

    stat_result = path.stat()
    mode = stat.S_IMODE(stat_result.st_mode)
    if mode & 0o077:
        raise TPUError(
            f"Other users can read the SSH key {path} (mode {mode:04o}), so it is not used.",
            Reason.KEY_FILE,
            f"Run `chmod 600 {path}`.",
        )
    try:
        return _parsed(path, stat_result.st_mtime_ns, stat_result.st_ino)
    except asyncssh.KeyEncryptionError as error:
        problem = "needs a passphrase, which is not supported"
        cause: Exception = error
    except asyncssh.KeyImportError as error:
        # asyncssh's error if no passphrase was given.
        if "passphrase" in str(error).lower():
            problem = "needs a passphrase, which is not supported"
        else:
            problem = "is not a private key"
        cause = error
    raise TPUError(
        f"The SSH key {path} {problem}.",
        Reason.KEY_FILE,
        f"Move it away to create a new one, or set {KEY_VARIABLE} to another key.",
    ) from cause


@lru_cache(maxsize=4)
def _parsed(path: Path, changed: int, inode: int) -> SSHKey:
    """Parsing takes half a millisecond, and each host of a pod needs the key several times."""
    from .library import asyncssh

    return asyncssh.read_private_key(path)


def public_key(path: Path) -> str:
    """The public half, "ssh-ed25519 AAAA…", of the private key at *path*; raises KEY_FILE."""
    return public_line(load_key(path))


def stored_public_key() -> str:
    """The public key next to ours, "ssh-ed25519 AAAA…", without looking at the private one; "" if
    there is none.
    """
    path = key_path()
    try:
        kind, blob = path.with_name(path.name + ".pub").read_text(encoding="ascii").split()[:2]
    except (OSError, ValueError):
        return ""
    return f"{kind} {blob}"


def public_line(key: SSHKey) -> str:
    """The public half of *key*, "ssh-ed25519 AAAA…"."""
    kind, blob = key.export_public_key("openssh").decode().split()[:2]
    return f"{kind} {blob}"


def _create(path: Path) -> None:
    from .library import asyncssh

    private_dir(path.parent)
    key = asyncssh.generate_private_key("ssh-ed25519", comment="jupyter-tpu")
    write_atomically(path, key.export_private_key("openssh"), overwrite=False)


def user_name(environ: Mapping[str, str] = os.environ) -> str:
    """The login name on hosts: ``JUPYTER_TPU_SSH_USER``, else the local one as Linux accepts it."""
    return environ.get(USER_VARIABLE) or fit_user_name(local_user())


def local_user() -> str:
    """The user's name on this computer; "" if there is none."""
    try:
        return getpass.getuser()
    except (KeyError, ImportError, OSError):
        return ""


def fit_user_name(local: str) -> str:
    """*local* as ``useradd`` accepts it: lower case, at most 32 characters, not root.

    >>> fit_user_name("Ann.Lee")
    'ann_lee'
    """
    name = re.sub(r"[^a-z0-9_-]", "_", local.lower())[:32]
    name = re.sub(r"^[^a-z_]", "_", name)
    return _PLAIN_USER if name.strip("_-") in ("", "root") else name


def fingerprint(key: str) -> str:
    """OpenSSH's SHA-256 fingerprint of "TYPE BASE64 …", as ``ssh-keygen -l`` prints it."""
    try:
        blob = base64.b64decode(key.split()[1], validate=True)
    except (IndexError, binascii.Error):
        return "(unreadable key)"
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")

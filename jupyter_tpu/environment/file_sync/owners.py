"""Which folder of a TPU is that of a project here: the same for notebooks, syncs and scripts."""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

from ...errors import TPUError
from .bases import Bases, Stored


class FolderOwner(Stored):
    """The project folder here that a folder of a TPU's hosts was first used for."""

    file_name = "owner"
    folder: str = ""


def remote_folder(bases: Bases, host_id: str, folder: Path, *, claim: bool = True) -> str:
    """``~/NAME`` on all hosts of a TPU; one of its own if another project that is still here has
    it.

    host_id: of one of its hosts, as a link says it. claim: whether the project has it from now on.
    """
    remote = f"~/{folder.name}"
    key = (tpu_id(host_id), remote)
    owner = bases.load(FolderOwner, *key).folder
    if owner and owner != str(folder) and Path(owner).is_dir():
        digest = hashlib.blake2b(str(folder).encode("utf-8", "replace"), digest_size=2).hexdigest()
        return f"{remote}-{digest}"
    if claim and not owner:
        with contextlib.suppress(TPUError):  # then the next copy tells of it
            bases.save(FolderOwner(str(folder)), *key)
    return remote


def tpu_id(host_id: str) -> str:
    """What identifies a TPU among those of all clouds, from the id of one of its hosts."""
    return host_id.rpartition("/")[0]

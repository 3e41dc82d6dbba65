"""Which folders of this computer a TPU has, so that one that takes its place gets them, too."""

from __future__ import annotations

import hashlib
import time
from pathlib import Path

from msgspec import DecodeError, Struct, json, structs

from ...cloud import Node, NodeName
from ...errors import Reason, TPUError
from ...local_files import write_atomically
from ...paths import private_dir
from ..models import SyncProject

#: Days for which a folder is remembered after its last sync.
KEPT_DAYS = 90


class SyncedProject(Struct, kw_only=True):
    """A folder that all hosts of a TPU have; *watch* of its request: whether it is watched."""

    node_id: str
    request: SyncProject


class SyncedProjects:
    """A file for each, in *folder*: several processes may sync at the same time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def note(self, node: Node, request: SyncProject) -> None:
        """A sync of all of a folder is complete. Raises TPUError."""
        request = structs.replace(request, overwrite=False, delete=False)
        project = SyncedProject(node_id=node.id, request=request)
        file = self._file(node.name, request.remote)
        try:
            private_dir(file.parent)
            data = json.encode(project)
            if not file.exists() or file.read_bytes() != data:
                write_atomically(file, data)
        except OSError as error:
            raise TPUError(
                f"What was synced can't be saved in {file.parent}: {error.strerror}.",
                Reason.DISK_FULL,
            ) from None

    def of(self, name: NodeName, node_id: str) -> list[SyncProject]:
        """What that TPU has, or had. Old entries of its name are removed."""
        projects = []
        for file in sorted(self._file(name, "").parent.glob("*.json")):
            try:
                project = json.decode(file.read_bytes(), type=SyncedProject)
                if file.stat().st_mtime < time.time() - KEPT_DAYS * 86_400:
                    file.unlink()
                elif project.node_id == node_id:
                    projects.append(project.request)
            except (OSError, DecodeError):
                continue  # another process has removed it, or a newer version has written it
        return projects

    def _file(self, name: NodeName, remote: str) -> Path:
        """Not by its zone: another TPU of the name may be elsewhere."""
        return self._folder / _digest(name.project, name.node) / f"{_digest(remote)}.json"


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode(), digest_size=16).hexdigest()

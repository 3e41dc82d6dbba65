"""On what kind of file system a folder is."""

from __future__ import annotations

import os
import re
from pathlib import Path

#: Linux's names of file systems that several machines share.
_NETWORK = re.compile(
    r"(nfs4?|cifs|smb3|smbfs|9p|afs|ceph|lustre|gpfs|beegfs|glusterfs|orangefs|ocfs2|gfs2)$"
    r"|fuse\.(sshfs|glusterfs|s3fs|gcsfuse|rclone|juicefs)$"
)
MOUNTS = Path("/proc/self/mountinfo")


def network_file_system(path: Path, mounts: Path = MOUNTS) -> str:
    """The name of the network file system that *path* is on; "" for a local one, and where the
    system does not say.
    """
    try:
        lines = os.fsdecode(mounts.read_bytes()).splitlines()
    except OSError:
        return ""
    target = Path(os.path.realpath(path))
    kind, deepest = "", -1
    for line in lines:  # proc(5): "36 35 98:0 /root /mount/point options … - ext4 /dev/… …"
        before, _, after = line.partition(" - ")
        fields, named = before.split(" "), after.split(" ")
        if len(fields) < 5 or not named[0]:
            continue
        mount = Path(_unescape(fields[4]))
        # Of two mounts at one place the later one is seen.
        if len(mount.parts) >= deepest and target.is_relative_to(mount):
            kind, deepest = named[0], len(mount.parts)
    return kind if _NETWORK.match(kind) else ""


def _unescape(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text

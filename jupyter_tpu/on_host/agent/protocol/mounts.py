"""Whether a folder is this host's alone. Where hosts share a home folder over a network, sockets
and locks in it would be taken for those of another host.
"""

import os

#: Where Linux says what is mounted: proc_pid_mountinfo(5).
TABLE = "/proc/self/mountinfo"
#: File systems on a disk or in the memory of this host.
LOCAL = (
    "bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "tmpfs", "xfs",
    "zfs",
)  # fmt: skip


def is_local(path):
    """Also True where the system does not say what is mounted."""
    return kind_of(path) in ("", *LOCAL)


def is_known_local(path):
    """False where the system does not say what is mounted."""
    return kind_of(path) in LOCAL


def kind_of(path):
    """The kind of the file system that *path* is on; "" where the system does not say."""
    real, longest, kind = os.path.realpath(path), "", ""
    try:
        with open(TABLE, errors="surrogateescape") as file:
            for line in file:
                fields, _, rest = line.partition(" - ")
                place = fields.split(" ")[4].replace("\\040", " ")
                if (real + "/").startswith(place.rstrip("/") + "/") and len(place) >= len(longest):
                    longest, kind = place, rest.partition(" ")[0]
    except OSError:
        pass
    return kind

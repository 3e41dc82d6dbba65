"""libtpu's lock file: which users a leftover file blocks, and how it is deleted safely."""

import contextlib
import fcntl
import os
import stat

from jupyter_tpu.agent.protocol.chips import LOCK, lock_holders, user_name


def lock_file(root="/"):
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


def delete_left_over():
    """Deletes the file while no one holds its lock, and says how that went.

    "deleted", "gone" (it does not exist), "held" (a process holds it), or "refused" (it is another
    user's).
    """
    try:
        # It is never created here: so the system lets root open it.
        file = os.open(LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return "gone"
    except OSError:
        return "refused"
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # With the lock, so that no process can get it meanwhile.
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), os.lstat(LOCK)):
                os.unlink(LOCK)
        return "deleted"
    except BlockingIOError:
        return "held"
    except PermissionError:
        return "refused"
    finally:
        os.close(file)

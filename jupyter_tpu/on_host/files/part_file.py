"""A file that is written under another name until it is whole, in a folder that nobody can replace
by a link meanwhile.

What a broken transfer leaves under that name is where the next one of the same file continues. Two
transfers of the same file at once use the same name: the one that does not find its own file there
at the end has lost it to the other.

The folder may be one in which others write, too. So nobody else can compute the name, what is there
under it counts only if it is the user's own, and no link is followed.
"""

import contextlib
import errno
import functools
import hashlib
import os
import stat

from .messages import CHUNK_BYTES, PART, encoded

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # opening a pipe would wait for its writer
_BINARY = getattr(os, "O_BINARY", 0)
#: Whether a folder can be open. On Windows all goes by paths.
_OPENS_FOLDERS = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
#: Whether rights and times are set by an open file, and not by a name that may be a link by then.
_SETS_BY_HANDLE = hasattr(os, "fchmod") and os.utime in os.supports_fd
#: Bytes of the key of names.
_KEY_BYTES = 32
#: What a full disk fails with.
FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


def new_digest():
    """A digest of a file's content, from which it is known again."""
    return hashlib.blake2b(digest_size=16)


def part_name(name, what):
    """The name under which a file is written, the same for each transfer of the same file by the
    same user.
    """
    folder = os.environ.get("JUPYTER_TPU_DATA_DIR")
    key = _key(folder or os.path.join(os.path.expanduser("~"), ".cache", "jupyter-tpu"))
    digest = hashlib.blake2b(name + b"\0" + encoded(what), key=key, digest_size=8)
    return PART + digest.hexdigest().encode()


@functools.lru_cache(maxsize=None)
def _key(folder):
    """What only this user knows. Where it can't be kept, no transfer continues another one."""
    path = os.path.join(folder, "part-key")
    with contextlib.suppress(OSError), open(path, "rb") as file:
        key = file.read(_KEY_BYTES + 1)
        if len(key) == _KEY_BYTES:
            return key
    key = os.urandom(_KEY_BYTES)
    with contextlib.suppress(OSError):
        os.makedirs(folder, 0o700, exist_ok=True)
        new = "%s.%s" % (path, os.urandom(8).hex())
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(key)
        os.replace(new, path)
    return key


def is_own(info):
    """Whether a file or folder belongs to this user, as far as the system says that."""
    return not hasattr(os, "geteuid") or info.st_uid == os.geteuid()


def is_own_file(info):
    """Whether it is a regular file of this user that has no other name, as a part has."""
    return stat.S_ISREG(info.st_mode) and info.st_nlink == 1 and is_own(info)


class Folder:
    """An open folder; names in it are bytes. Links are not followed, what is missing raises
    FileNotFoundError. path: which it had when it was opened.
    """

    def __init__(self, path, handle):
        self.path = path
        self._handle = handle

    @classmethod
    @contextlib.contextmanager
    def opened(cls, root):
        """The folder with the path *root*, which somebody has named: it may be a link."""
        folder = cls(root, os.open(root, os.O_RDONLY | os.O_DIRECTORY) if _OPENS_FOLDERS else None)
        with folder._closing():
            yield folder

    @contextlib.contextmanager
    def below(self, path, make=False):
        """The folder with the relative *path*, "" for this one.

        make: makes what is missing of it. Raises OSError where a part of it is a link.
        """
        folder = Folder(self.path, None if self._handle is None else os.dup(self._handle))
        with folder._closing():
            for name in path.split(b"/") if path else ():
                if make:
                    folder.make(name)
                folder._enter(name)
            yield folder

    @contextlib.contextmanager
    def _closing(self):
        try:
            yield
        finally:
            if self._handle is not None:
                os.close(self._handle)

    def _enter(self, name):
        path = os.path.join(self.path, name)
        try:
            if self._handle is not None:
                handle = self.open(name, os.O_RDONLY | os.O_DIRECTORY)
                os.close(self._handle)
                self._handle = handle
            elif not stat.S_ISDIR(os.lstat(path).st_mode):
                raise NotADirectoryError(errno.ENOTDIR, "")
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise OSError(error.errno, "its folder is a link or a file there") from None
            raise
        self.path = path

    def _at(self, name):
        return os.path.join(self.path, name) if self._handle is None else name

    def open(self, name, flags, mode=0o600):
        flags |= _NOFOLLOW | _NONBLOCK | _BINARY
        return os.open(self._at(name), flags, mode, dir_fd=self._handle)

    def info(self, name):
        """As `os.lstat`."""
        return os.stat(self._at(name), dir_fd=self._handle, follow_symlinks=False)

    def exists(self, name):
        try:
            self.info(name)
        except FileNotFoundError:
            return False
        return True

    def mode_of(self, name):
        """The rights of a regular file, if there is one."""
        with contextlib.suppress(FileNotFoundError):
            mode = self.info(name).st_mode
            return mode & 0o777 if stat.S_ISREG(mode) else None

    def link_target(self, name):
        return os.readlink(self._at(name), dir_fd=self._handle)

    def names(self):
        names = os.listdir(self.path if self._handle is None else self._handle)
        return [os.fsencode(name) for name in names]

    def free_space(self):
        """In bytes; None where it is not known."""
        if not hasattr(os, "statvfs"):
            return None
        disk = os.statvfs(self.path if self._handle is None else self._handle)
        return disk.f_bavail * disk.f_frsize if disk.f_blocks else None

    def make(self, name, mode=0o777):
        """A folder, if there is nothing of the name. Returns whether there was not."""
        try:
            os.mkdir(self._at(name), mode, dir_fd=self._handle)
        except FileExistsError:
            return False
        return True

    def make_link(self, name, target):
        os.symlink(target, self._at(name), dir_fd=self._handle)

    def set_mode(self, name, mode):
        """Only where `PartFile` can't: it would follow a link."""
        os.chmod(self._at(name), mode, dir_fd=self._handle)

    def set_time(self, name, mtime):
        """mtime: nanoseconds."""
        follow = os.utime not in os.supports_follow_symlinks
        ns = mtime, mtime
        os.utime(self._at(name), ns=ns, dir_fd=self._handle, follow_symlinks=follow)

    def set_own(self, mode, mtime):
        """The folder's own rights and time."""
        own = self.path if self._handle is None else self._handle
        os.chmod(own, mode)
        os.utime(own, ns=(mtime, mtime))

    def unlink(self, name):
        os.unlink(self._at(name), dir_fd=self._handle)

    def remove_folder(self, name):
        os.rmdir(self._at(name), dir_fd=self._handle)

    def move_to(self, folder, name, new):
        """Moves *name* into another folder. An empty folder that is there is replaced."""
        ends = {"src_dir_fd": self._handle, "dst_dir_fd": folder._handle}
        os.rename(self._at(name), folder._at(new), **ends)

    def remove(self, name):
        """A file that may be gone."""
        with contextlib.suppress(FileNotFoundError):
            self.unlink(name)

    def is_file(self, name, info):
        """Whether *name* is the file that *info* is of."""
        try:
            return os.path.samestat(self.info(name), info)
        except FileNotFoundError:
            return False

    def rename(self, part, name, replace=True):
        """Gives *part* its *name*. Without *replace* raises FileExistsError if there is one."""
        ends = {"src_dir_fd": self._handle, "dst_dir_fd": self._handle}
        old, new = self._at(part), self._at(name)
        if replace:
            os.replace(old, new, **ends)
            return
        try:
            os.link(old, new, follow_symlinks=False, **ends)
        except FileExistsError:
            self.unlink(part)
            raise
        except (OSError, NotImplementedError):  # a file system without hard links
            if self.exists(name):
                raise FileExistsError(errno.EEXIST, "exists") from None
            os.rename(old, new, **ends)
        else:
            self.unlink(part)


class PartFile:
    """A file that is written under the name *part* in an open folder. Updates *digest*.

    offset: bytes that are there from before; they are kept. mode: for the time until it is whole.
    """

    def __init__(self, folder, part, digest, offset=0, mode=0o600):
        self.part = part
        self.digest = digest
        self._folder = folder
        kept = self._kept() if offset else None
        self._file = kept or self._new(mode)
        while offset and kept:  # without it the digest will show that
            data = self._file.read(min(CHUNK_BYTES, offset))
            if not data:
                break  # the digest will show it
            self.digest.update(data)
            offset -= len(data)

    def _kept(self):
        """What an earlier transfer has left; None if it is gone, or not from this user."""
        try:
            file = os.fdopen(self._folder.open(self.part, os.O_RDWR), "r+b", 0)
        except OSError:
            return None
        if is_own_file(os.fstat(file.fileno())):
            return file
        file.close()
        return None

    def _new(self, mode):
        self._folder.remove(self.part)
        try:
            handle = self._folder.open(self.part, os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
        except FileExistsError:
            raise OSError(errno.EBUSY, "another transfer began it at the same time") from None
        return os.fdopen(handle, "r+b", 0)

    def write(self, data):
        self.digest.update(data)
        view = memoryview(data)
        while view:
            view = view[self._file.write(view) :]

    def write_old(self, name, offset, length):
        """Bytes of the file that has the *name* now; fewer if it has become shorter."""
        with os.fdopen(self._folder.open(name, os.O_RDONLY), "rb") as file:
            file.seek(offset)
            while length:
                data = file.read(min(CHUNK_BYTES, length))
                if not data:
                    return
                self.write(data)
                length -= len(data)

    @property
    def info(self):
        return self._info if self._file.closed else os.fstat(self._file.fileno())

    def close(self):
        if not self._file.closed:
            self._info = self.info
            self._file.close()

    def is_mine(self):
        """Whether no other transfer of the same file has begun it anew, or ended it."""
        return self._folder.is_file(self.part, self.info)

    def place(self, name, mode, mtime=None, replace=True):
        """Gives it its *name*, rights and time (nanoseconds; None: now), and closes it."""
        if _SETS_BY_HANDLE:
            os.fchmod(self._file.fileno(), mode)
            if mtime is not None:
                os.utime(self._file.fileno(), ns=(mtime, mtime))
        self.close()
        if not _SETS_BY_HANDLE:
            self._folder.set_mode(self.part, mode)
            if mtime is not None:
                self._folder.set_time(self.part, mtime)
        self._folder.rename(self.part, name, replace)

    def discard(self):
        """Closes and deletes it, unless it is another transfer's now, or has its name."""
        self.close()
        if self.is_mine():
            self._folder.remove(self.part)

"""A file that is written under another name until it is whole, in a folder that nobody can replace
by a link meanwhile.

What a broken transfer leaves under that name is where the next one of the same file continues. Two
transfers of the same file at once use the same name: the one that does not find its own file there
at the end has lost it to the other.
"""

import contextlib
import errno
import hashlib
import os
import stat

from .messages import CHUNK, PART, encoded

_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)  # opening a pipe would wait for its writer
_BINARY = getattr(os, "O_BINARY", 0)
#: Whether a folder can be open. On Windows all goes by paths.
_OPENS_FOLDERS = os.open in os.supports_dir_fd and hasattr(os, "O_DIRECTORY")
#: What a full disk fails with.
FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))


def new_digest():
    """Of a file's content, from which it is known again."""
    return hashlib.blake2b(digest_size=16)


def part_name(name, what):
    """The name under which a file is written, the same for each transfer of the same file."""
    return PART + hashlib.sha256(name + b"\0" + encoded(what)).hexdigest()[:16].encode()


class Folder:
    """An open folder; names in it are bytes. Links are not followed, what is missing raises
    FileNotFoundError.
    """

    def __init__(self, path, handle):
        self._path = path
        self._handle = handle

    @classmethod
    @contextlib.contextmanager
    def opened(cls, root, below=b"", make=False):
        """The folder *below* the folder *root*.

        make: makes what is missing of it. Raises OSError where a part of it is a link.
        """
        folder = cls(root, os.open(root, os.O_RDONLY | os.O_DIRECTORY) if _OPENS_FOLDERS else None)
        try:
            for name in below.split(b"/") if below else ():
                if make:
                    folder.make(name)
                folder._enter(name)
            yield folder
        finally:
            if folder._handle is not None:
                os.close(folder._handle)

    def _enter(self, name):
        path = os.path.join(self._path, name)
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
        self._path = path

    def _at(self, name):
        return os.path.join(self._path, name) if self._handle is None else name

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

    def make(self, name, mode=0o777):
        """A folder, if there is nothing of the name."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._at(name), mode, dir_fd=self._handle)

    def make_link(self, name, target):
        os.symlink(target, self._at(name), dir_fd=self._handle)

    def set_mode(self, name, mode):
        os.chmod(self._at(name), mode, dir_fd=self._handle)

    def set_time(self, name, mtime):
        """mtime: nanoseconds."""
        os.utime(self._at(name), ns=(mtime, mtime), dir_fd=self._handle)

    def set_own(self, mode, mtime):
        """The folder's own rights and time."""
        own = self._path if self._handle is None else self._handle
        os.chmod(own, mode)
        os.utime(own, ns=(mtime, mtime))

    def unlink(self, name):
        os.unlink(self._at(name), dir_fd=self._handle)

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
    info: of it, once it is closed.
    """

    def __init__(self, folder, part, digest, offset=0, mode=0o600):
        self.part = part
        self.digest = digest
        self._folder = folder
        if not offset:
            folder.remove(part)
        handle = folder.open(part, os.O_RDWR | os.O_CREAT, mode)
        self._file = os.fdopen(handle, "r+b", 0)
        while offset:
            data = self._file.read(min(CHUNK, offset))
            if not data:
                break  # the digest will show it
            self.digest.update(data)
            offset -= len(data)

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
                data = file.read(min(CHUNK, length))
                if not data:
                    return
                self.write(data)
                length -= len(data)

    def close(self):
        if not self._file.closed:
            self.info = os.fstat(self._file.fileno())
            self._file.close()

    def is_mine(self):
        """Whether no other transfer of the same file has begun it anew, or ended it."""
        return self._folder.is_file(self.part, self.info)

    def place(self, name, mode, mtime=None, replace=True):
        """Gives it its *name*, rights and time (nanoseconds; None: now)."""
        self._folder.set_mode(self.part, mode)
        if mtime is not None:
            self._folder.set_time(self.part, mtime)
        self._folder.rename(self.part, name, replace)

    def discard(self):
        """Deletes it, unless it is another transfer's now."""
        if self.is_mine():
            self._folder.remove(self.part)

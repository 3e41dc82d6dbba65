"""The end that gets the files.

A file is written under another name (``.copy-…``), and renamed when it is whole and its hash is
right. What a broken copy leaves under that name is where the next copy of the same file continues.
A folder that is new is written under such a name, too.

Two copies of the same file at once use the same name. One that does not find its own file there at
the end says so (BUSY), and changes nothing.

A receiver trusts nothing that the sender says: no path leads out of the destination, and no
symbolic link in it is followed. What may be asked for in vain is bounded, too.
"""

import contextlib
import errno
import hashlib
import os
import stat

from .protocol import (
    CHUNK,
    NAMED,
    CopyEntry,
    CopyFailure,
    check_entries,
    check_names,
    checked_problem,
    decoded,
    encoded,
    failure,
    from_home,
    is_file,
    kind_of,
    move_new,
    part_name,
    problem,
    remove,
    same,
)
from .sender import save_list

#: Files, and characters of their names, that one copy has at most.
MOST, NAMES = 2_000_000, 256 << 20


class Receiver:
    """Writes what the peer sends.

    destination: a path; or a list: where exactly each root has to be.
    list_id: under what name the list of what was copied is kept, for :func:`forward`; "" for none.
    asked: the names that the roots have to have; None for one that only the sender knows.
    rights: those of a file's owner, group and others that files can get.
    make_folder: whether a folder that is missing is created for the destination.
    allows_link(path, target): whether a symbolic link is made; *path* is below its root.
    """

    def __init__(
        self,
        peer,
        destination,
        overwrite,
        report,
        list_id="",
        asked=None,
        rights=0o777,
        allows_link=lambda path, target: True,
        make_folder=False,
    ):
        self._peer = peer
        self._asked = asked
        self._rights = rights
        self._allows_link = allows_link
        self._make_folder = make_folder
        self._destination = destination
        self._overwrite = overwrite
        self._report = report
        self._list_id = list_id
        self._entries = []
        self._names = []
        self._problems = []
        self._unlisted = 0  # problems that are counted only
        self._written = 0
        self._bytes = 0

    def receive(self):
        characters = 0
        while "listed" not in (message := self._peer.receive()):
            batch = [CopyEntry(*fields) for fields in message["entries"]]
            self._entries += batch
            characters += sum(len(copy_entry.path) + len(copy_entry.link) for copy_entry in batch)
            if len(self._entries) > MOST or characters > NAMES:
                raise CopyFailure("TOO_MANY", count=MOST)
        self._names = message["names"]
        self._problems = [checked_problem(reported) for reported in message["problems"]]
        self._unlisted = max(0, message["problem_count"] - len(self._problems))
        check_entries(self._entries, self._names)
        if self._asked is not None:
            check_names(self._names, self._asked)
        self._targets = self._resolve()
        self._bases = [self._base(root) for root in range(len(self._targets))]
        self._remove_stale_files()
        needed, unchanged, links = self._compare()
        self._make_folders()
        offsets = [[number, self._offset(self._entries[number])] for number in needed]
        resumed = sum(offset for _, offset in offsets)
        needed_bytes = sum(self._entries[number].size for number in needed)
        self._check_space(needed_bytes - resumed)
        self._peer.send(plan={"needed": offsets})
        self._report(resumed, needed_bytes)
        wrong: "list[int]" = []
        begin = dict(offsets)
        while needed:
            twice, wrong = (
                wrong,
                self._receive_files({number: begin.get(number, 0) for number in needed}),
            )
            begin = {}
            needed = [number for number in wrong if number not in twice]
            self._problems += [
                [self._shown(self._entries[number]), "BROKEN", ""]
                for number in wrong
                if number in twice
            ]
            self._peer.send(again=needed)
        for entry in links:
            self._make_link(entry)
        self._finish_folders()
        if self._list_id:
            save_list(self._list_id, self._targets, self._entries)
        result = {
            "files": self._written,
            "bytes": self._bytes,
            "unchanged": unchanged,
            "problems": self._problems[:NAMED],
            "problem_count": len(self._problems) + self._unlisted,
            "targets": [decoded(target) for target in self._targets],
        }
        self._peer.send(result=result)
        self._peer.flush()
        return result

    # ---- where

    def _resolve(self):
        if isinstance(self._destination, list):
            targets = [from_home(path) for path in self._destination]
            for target in targets:
                self._check_parent(target)
            return targets
        destination = from_home(self._destination)
        is_folder = len(self._names) > 1 or self._destination.endswith("/")
        if is_folder and self._make_folder:
            self._create(destination)
        if os.path.isdir(destination):
            if len(set(self._names)) < len(self._names) or not all(self._names):
                raise CopyFailure("SAME_NAME", names=self._names)
            return [os.path.join(destination, encoded(name)) for name in self._names]
        if is_folder:
            raise CopyFailure("ENOTDIR", self._destination.rstrip("/") + "/")
        self._check_parent(os.path.realpath(destination))
        return [os.path.realpath(destination)]

    def _create(self, folder):
        try:
            os.makedirs(folder, exist_ok=True)
        except (FileExistsError, NotADirectoryError):  # a file is in the way
            raise CopyFailure("ENOTDIR", decoded(folder).rstrip("/") + "/") from None

    def _check_parent(self, target):
        if self._make_folder:
            self._create(os.path.dirname(target))
        if not os.path.isdir(os.path.dirname(target)):
            raise CopyFailure("ENOTDIR", decoded(target))

    def _base(self, root):
        """Where a root is written: at its target, unless it is a new folder."""
        target = self._targets[root]
        kind = next((e.kind for e in self._entries if e.root == root and not e.path), "")
        if kind == "dir" and not os.path.lexists(target):
            return part_name(target, self._names[root])
        if os.path.isdir(target) != (kind == "dir"):
            code = "EISDIR" if kind == "file" else "IN_THE_WAY"
            raise CopyFailure(code, decoded(target))
        # The one that is named may be a link: what it leads to is written.
        return os.path.realpath(target)

    def _is_new(self, root):
        """Whether it is a folder that gets its name at the end: all in it is ours."""
        return self._bases[root] != os.path.realpath(self._targets[root])

    def _remove_stale_files(self):
        """Deletes what an earlier copy left in a new folder, and this one does not have."""
        known = {}
        for entry in self._entries:
            known[self._path_of(entry)] = entry.kind
            known[self._part(entry)] = "file"
        for root, base in enumerate(self._bases):
            for folder, folders, files in os.walk(base, False) if self._is_new(root) else ():
                for name in folders + files:
                    path = os.path.join(folder, name)
                    kind = kind_of(os.lstat(path).st_mode)
                    if known.get(path) == kind:
                        continue
                    (os.rmdir if kind == "dir" else os.unlink)(path)

    def _path_of(self, entry):
        base = self._bases[entry.root]
        return os.path.join(base, encoded(entry.path)) if entry.path else base

    def _part(self, entry):
        return part_name(self._path_of(entry), f"{entry.size} {entry.mtime}")

    def _offset(self, entry):
        try:
            stat_result = os.lstat(self._part(entry))
        except OSError:
            return 0
        return (
            stat_result.st_size
            if stat.S_ISREG(stat_result.st_mode) and stat_result.st_size <= entry.size
            else 0
        )

    # ---- what is there

    def _compare(self):
        needed, links, conflicts = [], [], []
        unchanged = 0
        for number, entry in enumerate(self._entries):
            path = self._path_of(entry)
            try:
                stat_result = os.lstat(path)
            except FileNotFoundError:
                stat_result = None
            except OSError as error:
                raise failure(error, path) from None
            is_folder = stat_result is not None and stat.S_ISDIR(stat_result.st_mode)
            if stat_result is not None and is_folder != (entry.kind == "dir"):
                raise CopyFailure("EISDIR" if is_folder else "IN_THE_WAY", decoded(path))
            if entry.kind == "dir":
                continue
            if entry.kind == "link" and not self._allows_link(entry.path, entry.link):
                self._problems.append([self._shown(entry), "OUTSIDE", ""])
                continue
            if stat_result is not None and same(entry, stat_result, path):
                unchanged += 1
                continue
            if stat_result is not None and not self._is_new(entry.root):
                conflicts.append(self._shown(entry))
            if entry.kind == "file":
                needed.append(number)
            else:
                links.append(entry)
        if conflicts and not self._overwrite:
            raise CopyFailure("EXISTS", names=conflicts[:NAMED], count=len(conflicts))
        return needed, unchanged, links

    def _shown(self, entry):
        """A name for a person."""
        target = decoded(self._targets[entry.root])
        return f"{target}/{entry.path}" if entry.path else target

    def _check_space(self, size):
        for base in self._bases:
            if not hasattr(os, "statvfs"):
                return
            disk = os.statvfs(os.path.dirname(base))
            if disk.f_blocks and size > disk.f_bavail * disk.f_frsize:
                raise CopyFailure("ENOSPC", decoded(base))

    # ---- writing

    @contextlib.contextmanager
    def _noting_problem(self, entry):
        """What fails with one file is a problem of that file only."""
        try:
            yield
        except OSError as error:
            self._problems.append(problem(error, encoded(self._shown(entry))))

    def _make_folders(self):
        for entry in self._entries:
            if entry.kind == "dir":
                path = self._path_of(entry)
                try:
                    os.mkdir(path, 0o700)
                except FileExistsError:
                    continue  # as `_compare` saw, or another copy made it
                except OSError as error:
                    raise failure(error, path) from None

    def _receive_files(self, needed):
        """Receives files, by their numbers from where on; returns those whose kept beginning was
        wrong.
        """
        again = []
        expected = dict(needed)
        while "sent" not in (message := self._peer.receive()):
            number = message["file"]
            if expected.pop(number, None) != message["offset"]:
                raise CopyFailure("PROTOCOL", message="a file that was not asked for")
            if not self._receive_file(self._entries[number], message["offset"]):
                again.append(number)
        return again

    def _receive_file(self, entry, offset):
        """False: its hash is wrong."""
        part = self._part(entry)
        file, why = None, None
        digest = hashlib.sha256()
        try:
            flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
            if not offset:
                remove(part)
            handle = os.open(part, flags | getattr(os, "O_BINARY", 0), 0o600)
            file = os.fdopen(handle, "r+b", 0)
            left = offset
            while left:
                data = file.read(min(CHUNK, left))
                if not data:
                    break
                digest.update(data)
                left -= len(data)
        except OSError as error:
            why = problem(error, encoded(self._shown(entry)))
        try:
            size = offset
            while "data" in (message := self._peer.receive()):
                data = self._peer.read(message["data"])
                size += len(data)
                if size > entry.size:
                    raise CopyFailure("PROTOCOL")
                if file is None or why:
                    continue
                self._report(len(data))
                digest.update(data)
                self._write(file, data, part)
        finally:
            if file is not None:
                mine = os.fstat(file.fileno())
                file.close()
        if why or "failed" in message:
            self._problems.append(
                why or [self._shown(entry), *checked_problem(message["failed"])[1:]]
            )
            if file is not None:
                remove(part)
            return True
        if message["sha256"] != digest.hexdigest():
            remove(part)
            return False
        with self._noting_problem(entry):
            if is_file(part, mine):
                self._put_in_place(part, entry)
            elif not self._is_in_place(entry, mine):
                self._problems.append([self._shown(entry), "BUSY", ""])
                return True
            self._written += 1
            self._bytes += entry.size
        return True

    def _write(self, file, data, part):
        try:
            view = memoryview(data)
            while view:
                view = view[file.write(view) :]
        except OSError as error:
            if error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", None)):
                remove(part)  # it would keep the disk full
            raise failure(error, part) from None

    def _put_in_place(self, part, entry):
        os.chmod(part, entry.mode & self._rights)
        os.utime(part, ns=(entry.mtime, entry.mtime))
        self._rename(part, entry)

    def _is_in_place(self, entry, mine):
        """Whether another copy of the same has put it there."""
        path = self._path_of(entry)
        if is_file(path, mine):  # both wrote it
            os.utime(path, ns=(entry.mtime, entry.mtime))
        return os.path.lexists(path) and same(entry, os.lstat(path), path)

    def _rename(self, part, entry):
        if self._overwrite or self._is_new(entry.root):
            os.replace(part, self._path_of(entry))
        else:
            move_new(part, self._path_of(entry))

    def _make_link(self, entry):
        part = self._part(entry)
        with self._noting_problem(entry):
            remove(part)
            os.symlink(encoded(entry.link), part)
            self._rename(part, entry)

    def _finish_folders(self):
        """Their modes and times, from below, and the names of those that are new."""
        for entry in reversed(self._entries):
            if entry.kind != "dir":
                continue
            path = self._path_of(entry)
            with self._noting_problem(entry):
                os.chmod(path, entry.mode & self._rights)
                os.utime(path, ns=(entry.mtime, entry.mtime))
        for root, base in enumerate(self._bases):
            if self._is_new(root):
                self._check_whole(root)
                try:
                    os.rename(base, self._targets[root])
                except OSError as error:
                    if error.errno in (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY):
                        raise CopyFailure("BUSY", decoded(self._targets[root])) from None
                    raise

    def _check_whole(self, root):
        """Another copy to the same new folder deletes what it does not have itself."""
        known = {path for path, *_ in self._problems}
        for entry in self._entries:
            expected = entry.root == root and self._shown(entry) not in known
            if expected and not os.path.lexists(self._path_of(entry)):
                raise CopyFailure("BUSY", decoded(self._targets[root]))

"""The end that gets the files.

A file is written under another name until it is whole (`transfer.part_file`). A folder that is new
is written in a private folder of such a name, which the next copy finds again. Folders are opened
once, and what is below them by these: others may write next to what is copied.

Of two copies of the same file at once, the one that does not find its own file there at the end
says so (BUSY), and changes nothing.

A receiver trusts nothing that the sender says: no path leads out of the destination, and no
symbolic link in it is followed. What may be asked for in vain is bounded, too.
"""

import contextlib
import errno
import os
import stat
from typing import NamedTuple

from ..contents import (
    DELTA_FROM,
    NotReceived,
    kept_size,
    received,
    signatures,
)
from ..messages import (
    MOST_NAMES,
    PART,
    TransferFailure,
    checked_problem,
    decoded,
    encoded,
    failure,
    problem,
    protocol_error,
)
from ..part_file import Folder, is_own, part_name
from ..tree import is_private
from .entries import CopyEntry, check_entries, check_names, from_home, kind_of, same
from .sender import save_list

#: Files, and characters of their names, that one copy has at most.
MOST_FILES, NAME_CHARACTERS = 2_000_000, 256 << 20


class _Top(NamedTuple):
    """Where a root is written: an open folder, its path, and the root's name in it. is_new: it is
    not the name that it gets at the end.
    """

    folder: Folder
    path: bytes
    name: bytes
    is_new: bool = False


class Receiver:
    """Writes what the peer sends.

    destination: a path; or a list: where exactly each root has to be.
    list_id: under what name the list of what was copied is kept, for :func:`forward`; "" for none.
    asked: the names that the roots have to have; None for one that only the sender knows.
    rights: those of a file's owner, group and others that files can get.
    make_folder: whether a folder that is missing is created for the destination.
    allows_link(path, target): whether a symbolic link is made; *path* is below its root.
    most_bytes: what all files have together at most; None: no limit.
    may_write(path): for a coding agent, whether a root may be there; hidden files and credentials
    are refused then. None: for a person.
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
        may_write=None,
        most_bytes=None,
    ):
        self._most_bytes = most_bytes
        self._may_write = may_write
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
        self._folders = contextlib.ExitStack()  # open ones
        self._by_path = {}  # those of roots
        self._private = {}  # our own in these

    def receive(self):
        with self._folders:
            result = self._receive()
        self._peer.send(result=result)
        self._peer.flush()
        return result

    def _receive(self):
        characters = 0
        while "listed" not in (message := self._peer.receive()):
            batch = [CopyEntry(*fields) for fields in message["entries"]]
            self._entries += batch
            characters += sum(len(copy_entry.path) + len(copy_entry.link) for copy_entry in batch)
            if len(self._entries) > MOST_FILES or characters > NAME_CHARACTERS:
                raise TransferFailure("TOO_MANY", count=MOST_FILES)
        self._names = message["names"]
        self._problems = [checked_problem(reported) for reported in message["problems"]]
        self._unlisted = max(0, message["problem_count"] - len(self._problems))
        check_entries(self._entries, self._names)
        total = sum(copy_entry.size for copy_entry in self._entries)
        if self._most_bytes is not None and total > self._most_bytes:
            raise TransferFailure("TOO_LARGE", count=total)
        if self._asked is not None:
            check_names(self._names, self._asked)
        self._targets = self._resolve()
        if self._may_write is not None:
            self._check_closed()
        self._tops = [self._top(root) for root in range(len(self._targets))]
        self._remove_stale_files()
        needed, unchanged, links = self._compare()
        self._make_folders()
        offsets = [[number, self._offset(self._entries[number])] for number in needed]
        resumed = sum(offset for _, offset in offsets)
        needed_bytes = sum(self._entries[number].size for number in needed)
        self._check_space(needed_bytes - resumed)
        replaced = {
            number: (self._path_of(entry), entry.size)
            for number, offset in offsets
            if not offset and (entry := self._entries[number]).size >= DELTA_FROM
        }
        self._peer.send(plan={"needed": offsets, "old": signatures(replaced)})
        self._report(resumed, needed_bytes)
        if needed:
            again = self._receive_files(dict(offsets))
            self._peer.send(again=again)
            broken = self._receive_files(dict.fromkeys(again, 0)) if again else []
            self._problems += [[self._shown(self._entries[n]), "BROKEN", ""] for n in broken]
        for entry in links:
            self._make_link(entry)
        self._finish_folders()
        if self._list_id:
            save_list(self._list_id, self._targets, self._entries)
        return {
            "files": self._written,
            "bytes": self._bytes,
            "unchanged": unchanged,
            "problems": self._problems[:MOST_NAMES],
            "problem_count": len(self._problems) + self._unlisted,
            "targets": [decoded(target) for target in self._targets],
        }

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
                raise TransferFailure("SAME_NAME", names=self._names)
            return [os.path.join(destination, encoded(name)) for name in self._names]
        if is_folder:
            raise TransferFailure("ENOTDIR", self._destination.rstrip("/") + "/")
        self._check_parent(os.path.realpath(destination))
        return [os.path.realpath(destination)]

    def _create(self, folder):
        try:
            os.makedirs(folder, exist_ok=True)
        except (FileExistsError, NotADirectoryError):  # a file is in the way
            raise TransferFailure("ENOTDIR", decoded(folder).rstrip("/") + "/") from None

    def _check_parent(self, target):
        if self._make_folder:
            self._create(os.path.dirname(target))
        if not os.path.isdir(os.path.dirname(target)):
            raise TransferFailure("ENOTDIR", decoded(target))

    def _check_closed(self):
        closed = [path for path in map(decoded, self._targets) if not self._may_write(path)]
        closed += [entry.path for entry in self._entries if entry.path and is_private(entry.path)]
        if closed:
            raise TransferFailure("CLOSED", closed[0])

    def _top(self, root):
        """Where a root is written: its folder, and its name in that."""
        target = self._targets[root]
        kind = next((e.kind for e in self._entries if e.root == root and not e.path), "")
        if kind == "dir" and not os.path.lexists(target):
            return self._new_top(*os.path.split(target))
        if os.path.isdir(target) != (kind == "dir"):
            code = "EISDIR" if kind == "file" else "IN_THE_WAY"
            raise TransferFailure(code, decoded(target))
        # The one that is named may be a link: what it leads to is written.
        folder, name = os.path.split(os.path.realpath(target))
        return _Top(self._open(folder), folder, name)

    def _new_top(self, path, name):
        """A new root in a private folder next to it. Others may move what they like to the name of
        the private one, but do not know the name in it.
        """
        if path not in self._private:
            folder, private = self._open(path), part_name(b"", "\0".join(self._names))
            try:
                if not folder.make(private, 0o700) and not _is_private(folder.info(private)):
                    private = PART + os.urandom(8).hex().encode()
                    folder.make(private, 0o700)
                self._folders.callback(_remove_if_empty, folder, private)
                inner = self._folders.enter_context(folder.below(private))
            except OSError as error:
                raise failure(error, os.path.join(path, private)) from None
            self._private[path] = inner, os.path.join(path, private)
        inner, place = self._private[path]
        return _Top(inner, place, part_name(name, "folder"), is_new=True)

    def _open(self, path):
        if path not in self._by_path:
            try:
                folder = self._folders.enter_context(Folder.opened(path))
            except OSError as error:
                raise failure(error, path) from None
            self._by_path[path] = folder
        return self._by_path[path]

    def _is_new(self, root):
        """Whether it is a folder that gets its name at the end: all in it is ours."""
        return self._tops[root].is_new

    def _remove_stale_files(self):
        """Deletes what an earlier copy left in a new folder, and this one does not have."""
        known = {}
        for entry in filter(lambda entry: self._is_new(entry.root), self._entries):
            path = self._path_of(entry)
            folder, name = os.path.split(path)
            known[path] = entry.kind
            known[os.path.join(folder, part_name(name, self._what(entry)))] = "file"
        for top in filter(lambda top: top.is_new, self._tops):
            for path, kind in reversed(_all_below(top.folder, top.name)):
                if known.get(os.path.join(top.path, path)) != kind:
                    above, name = os.path.split(path)
                    with top.folder.below(above) as folder:
                        (folder.remove_folder if kind == "dir" else folder.unlink)(name)

    def _path_of(self, entry):
        """To look at what is there. What is written goes by open folders."""
        return os.path.join(self._tops[entry.root].path, self._place_of(entry))

    def _place_of(self, entry):
        """Its path below the folder of its root."""
        name = self._tops[entry.root].name
        return os.path.join(name, encoded(entry.path)) if entry.path else name

    def _what(self, entry):
        """Names this content of a file."""
        return f"{entry.size} {entry.mtime}"

    def _offset(self, entry):
        folder, name = os.path.split(self._path_of(entry))
        return kept_size(folder, name, self._what(entry), entry.size)

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
                raise TransferFailure("EISDIR" if is_folder else "IN_THE_WAY", decoded(path))
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
            raise TransferFailure("EXISTS", names=conflicts[:MOST_NAMES], count=len(conflicts))
        return needed, unchanged, links

    def _shown(self, entry):
        """A name for a person."""
        target = decoded(self._targets[entry.root])
        return f"{target}/{entry.path}" if entry.path else target

    def _check_space(self, size):
        for top, target in zip(self._tops, self._targets):
            free = top.folder.free_space()
            if free is not None and size > free:
                raise TransferFailure("ENOSPC", decoded(target))

    # ---- writing

    @contextlib.contextmanager
    def _noting_problem(self, entry):
        """What fails with one file is a problem of that file only."""
        try:
            yield
        except OSError as error:
            self._problems.append(problem(error, encoded(self._shown(entry))))

    @contextlib.contextmanager
    def _opened(self, entry):
        """The folder that an entry is in, and its name."""
        below, name = os.path.split(self._place_of(entry))
        with self._tops[entry.root].folder.below(below) as folder:
            yield folder, name

    def _make_folders(self):
        for entry in self._entries:
            if entry.kind == "dir":
                try:
                    with self._opened(entry) as (folder, name):
                        folder.make(name, 0o700)
                except OSError as error:
                    raise failure(error, self._path_of(entry)) from None

    def _receive_files(self, needed):
        """Receives files, by their numbers from where on; returns those whose kept beginning was
        wrong.
        """
        again = []
        expected = dict(needed)
        while "sent" not in (message := self._peer.receive()):
            number, offset = message["file"], message["offset"]
            if expected.pop(number, None) != offset:
                raise protocol_error("a file that was not asked for")
            if not self._receive_file(self._entries[number], offset):
                again.append(number)
        return again

    def _receive_file(self, entry, offset):
        """False: its hash is wrong."""
        top, path = self._tops[entry.root].folder, self._place_of(entry)
        details = (self._what(entry), entry.size, self._report, offset)
        try:
            with received(self._peer, top, path, *details) as arrived:
                self._put_in_place(entry, *arrived)
        except NotReceived as error:
            if error.code == "WRONG":
                return False
            self._problems.append([self._shown(entry), error.code, error.message])
        except OSError as error:
            raise failure(error, self._path_of(entry)) from None
        return True

    def _put_in_place(self, entry, folder, name, file):
        with self._noting_problem(entry):
            if file.is_mine():
                rights = entry.mode & self._rights
                file.place(name, rights, entry.mtime, self._replaces(entry))
            elif not self._is_in_place(entry, folder, name, file):
                self._problems.append([self._shown(entry), "BUSY", ""])
                return
            self._written += 1
            self._bytes += entry.size

    def _replaces(self, entry):
        return self._overwrite or self._is_new(entry.root)

    def _is_in_place(self, entry, folder, name, file):
        """Whether another copy of the same has put it there."""
        if folder.is_file(name, file.info):  # both wrote it
            folder.set_time(name, entry.mtime)
        return folder.exists(name) and same(entry, folder.info(name), self._path_of(entry))

    def _make_link(self, entry):
        with self._noting_problem(entry), self._opened(entry) as (folder, name):
            part = part_name(name, self._what(entry))
            folder.remove(part)
            folder.make_link(part, encoded(entry.link))
            folder.rename(part, name, self._replaces(entry))

    def _finish_folders(self):
        """Their modes and times, from below, and the names of those that are new."""
        for entry in reversed(self._entries):
            if entry.kind != "dir":
                continue
            place, top = self._place_of(entry), self._tops[entry.root]
            names = top.is_new and not entry.path
            if names:
                self._check_whole(entry.root)
            with self._noting_problem(entry), top.folder.below(place) as folder:
                if names:  # before its own mode, without which it might not be moved
                    self._name_new(entry.root)
                folder.set_own(entry.mode & self._rights, entry.mtime)

    def _name_new(self, root):
        top, target = self._tops[root], self._targets[root]
        path, name = os.path.split(target)
        try:
            top.folder.move_to(self._open(path), top.name, name)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                raise TransferFailure("BUSY", decoded(target)) from None
            raise failure(error, target) from None

    def _check_whole(self, root):
        """Another copy to the same new folder deletes what it does not have itself."""
        known = {path for path, *_ in self._problems}
        for entry in self._entries:
            expected = entry.root == root and self._shown(entry) not in known
            if expected and not os.path.lexists(self._path_of(entry)):
                raise TransferFailure("BUSY", decoded(self._targets[root]))


def _all_below(top, name):
    """[(path, kind)] of what is below a folder in *top*, if it exists; a folder before its own."""
    found, pending = [], [name] if top.exists(name) else []
    while pending:
        path = pending.pop()
        with top.below(path) as folder:
            for name in folder.names():
                kind = kind_of(folder.info(name).st_mode)
                found.append((os.path.join(path, name), kind))
                if kind == "dir":
                    pending.append(os.path.join(path, name))
    return found


def _is_private(info):
    """Whether it is a folder of this user, which no one else can read or write."""
    return (
        stat.S_ISDIR(info.st_mode) and is_own(info) and stat.S_IMODE(info.st_mode) & 0o777 == 0o700
    )


def _remove_if_empty(folder, name):
    with contextlib.suppress(OSError):  # what is in it is for the next copy, or another one's
        folder.remove_folder(name)

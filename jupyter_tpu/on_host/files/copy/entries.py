"""What a copy's two ends tell each other of its files, and the checks of that."""

import os
import stat
from typing import NamedTuple

from ..messages import encoded, protocol_error


class CopyEntry(NamedTuple):
    """A file, folder or symbolic link: ``path`` below its root, "" for the root itself."""

    root: int
    path: str
    kind: str  # "file", "dir" or "link"
    mode: int
    mtime: int  # nanoseconds
    size: int
    link: str


def kind_of(mode):
    """ "" for a device, a pipe or a socket."""
    if stat.S_ISDIR(mode):
        return "dir"
    return "file" if stat.S_ISREG(mode) else "link" if stat.S_ISLNK(mode) else ""


def from_home(path):
    """Paths are bytes, whatever the host's locale is."""
    path = encoded(path)
    if path == b"~" or path.startswith(b"~/"):
        path = path[2:]
    return os.path.join(os.path.expanduser(b"~"), path)


#: The types of what an entry has.
TYPES = [int, str, str, int, int, int, str]


def check_entries(entries, names):
    """The entries of a sender: what is none, or could lead out of the destination."""
    seen, folders = set(), set()
    foreign = {"\0", "\\", ":"} if os.sep != "/" else {"\0"}
    for entry in entries:
        if [*map(type, entry)] != TYPES:
            raise protocol_error("what is not a file")
        parts = entry.path.split("/") if entry.path else []
        key = (entry.root, entry.path)
        if (
            not 0 <= entry.root < len(names)
            or {"", ".", ".."} & set(parts)
            or foreign & set(entry.path)
            or key in seen
            # Each folder is compared with what is there, so it is none that a link leads to.
            or (parts and (entry.root, "/".join(parts[:-1])) not in folders)
            # A link that is named is followed by who sends it.
            or entry.kind not in (("file", "dir", "link") if parts else ("file", "dir"))
            or not (0 <= entry.size < 1 << 62 and -1 << 62 < entry.mtime < 1 << 62)
            or not 0 <= entry.mode <= 0o777
            or "\0" in entry.link
        ):
            raise protocol_error("a file with a path or rights that can't be")
        seen.add(key)
        if entry.kind == "dir":
            folders.add(key)
    for name in names:
        if name in (".", "..") or ({"/"} | foreign) & set(name):
            raise protocol_error("a name that is none")


def check_names(names, asked):
    """The names of the roots: those that were *asked* for, of which None is any."""
    hidden = any(name.startswith(".") for name, known in zip(names, asked) if known is None)
    same = all(name == known for name, known in zip(names, asked) if known is not None)
    if hidden or not same or len(names) != len(asked):
        raise protocol_error("other files than those that were asked for")


def checked_numbers(needed, entries):
    """The numbers of the files that a receiver asks for, each with where it begins."""
    for number, offset in needed:
        if type(number) is not int or not 0 <= number < len(entries):
            raise protocol_error("it asks for what was not offered")
        if entries[number].kind != "file" or not 0 <= offset <= entries[number].size:
            raise protocol_error("it asks for what was not offered")
    if len({number for number, _ in needed}) < len(needed):
        raise protocol_error("it asks for the same file twice")
    return needed


def same(entry, info, path):
    """Whether what is there is the entry, by its size and time, as rsync compares."""
    if entry.kind == "link":
        return stat.S_ISLNK(info.st_mode) and os.readlink(path) == encoded(entry.link)
    coarse = info.st_mtime_ns % 10**9 == 0  # some file systems keep whole seconds
    unit = 10**9 if coarse else 1
    return (
        stat.S_ISREG(info.st_mode)
        and info.st_size == entry.size
        and info.st_mtime_ns // unit == entry.mtime // unit
    )

"""Checks of what the other end of a copy sends. All raise PROTOCOL."""

import os

from .protocol import CopyFailure

#: The types of what an entry has.
TYPES = [int, str, str, int, int, int, str]


def check_entries(entries, names):
    """The entries of a sender: what is none, or could lead out of the destination."""
    seen, folders = set(), set()
    foreign = {"\0", "\\", ":"} if os.sep != "/" else {"\0"}
    for entry in entries:
        if [*map(type, entry)] != TYPES:
            raise CopyFailure("PROTOCOL", message="what is not a file")
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
            raise CopyFailure("PROTOCOL", message="a file with a path or rights that can't be")
        seen.add(key)
        if entry.kind == "dir":
            folders.add(key)
    for name in names:
        if name in (".", "..") or ({"/"} | foreign) & set(name):
            raise CopyFailure("PROTOCOL", message="a name that is none")


def check_names(names, asked):
    """The names of the roots: those that were *asked* for, of which None is any."""
    hidden = any(name.startswith(".") for name, known in zip(names, asked) if known is None)
    same = all(name == known for name, known in zip(names, asked) if known is not None)
    if hidden or not same or len(names) != len(asked):
        raise CopyFailure("PROTOCOL", message="other files than those that were asked for")


def checked_problem(told):
    """Why a file is not sent: its path, a code and a message."""
    path, code, message = told
    if not all(isinstance(text, str) for text in told):
        raise CopyFailure("PROTOCOL")
    return [path, code, message[:1000]]


def checked_numbers(needed, entries):
    """The numbers of the files that a receiver asks for, each with where it begins."""
    for number, offset in needed:
        if type(number) is not int or not 0 <= number < len(entries):
            raise CopyFailure("PROTOCOL", message="it asks for what was not offered")
        if entries[number].kind != "file" or not 0 <= offset <= entries[number].size:
            raise CopyFailure("PROTOCOL", message="it asks for what was not offered")
    if len({number for number, _ in needed}) < len(needed):
        raise CopyFailure("PROTOCOL", message="it asks for the same file twice")
    return needed

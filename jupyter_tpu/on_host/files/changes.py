"""Changes of files: sent by one machine, carried out on another, with the contents between them.

A change has ``path``, ``state`` (the new one; null: it is deleted), ``size``, and ``expected`` (the
old state, which is checked right before; null: nothing is there). Both ends know the changes: the
contents come in their order, and the host that sends can't choose what they are for. *known* is
what the receiver has of large files: {path: bytes of a part from before, or a signature}.
"""

import contextlib
import json
import os

from ..calls.paths import write_file
from .contents import (
    DELTA_FROM,
    NotReceived,
    kept_size,
    received,
    send_file,
    signatures,
    skip_file,
)
from .messages import encoded, protocol_error
from .part_file import FULL, Folder, new_digest, part_name
from .tree import is_inside, is_safe, state_of

#: Changes in a message.
_BATCH_CHANGES = 1000
#: Why a change was not carried out that may be, when it is sent again.
SENT_CHANGED = "it was changed while it was sent"
_CHANGED = "it has changed in the meantime"


class ChangeRefused(Exception):
    """Why a change is not carried out."""


# ---- sending ----


def send_list(peer, changes):
    for at in range(0, len(changes), _BATCH_CHANGES):
        peer.send(changes=changes[at : at + _BATCH_CHANGES])


def send_contents(peer, root, changes, known, report=lambda size: None):
    for number, change in enumerate(changes):
        if has_content(change["state"]):
            path = change["path"]
            have = known.get(path, 0)
            offset, old = (have, None) if isinstance(have, int) else (0, have)
            full = os.path.join(root, path)
            send_file(peer, number, full, change["size"], report, offset, old)


def has_content(state):
    return state is not None and state.startswith(("file ", "program "))


def digest_of(changes):
    """The digest of a list of changes or paths, from which it is known again."""
    digest = new_digest()
    digest.update(json.dumps(changes, sort_keys=True).encode())
    return digest.hexdigest()


# ---- receiving ----


def receive_list(peer, count):
    """The *count* changes that `send_list` sends."""
    changes: list = []
    while len(changes) < count:
        changes += peer.receive()["changes"]
    return changes


def known_of(root, changes):
    """What is here of large files that change: see above."""
    large = [
        change
        for change in changes
        if has_content(change["state"]) and change["size"] >= DELTA_FROM
    ]
    kept = {change["path"]: kept_size_of(root, change) for change in large}
    old = {
        change["path"]: (os.path.join(root, change["path"]), change["size"])
        for change in large
        if not kept[change["path"]]
    }
    return dict({path: size for path, size in kept.items() if size}, **signatures(old))


def kept_size_of(root, change):
    """How many bytes of a file an earlier sync has left."""
    folder, name = os.path.split(encoded(os.path.join(root, change["path"])))
    return kept_size(folder, name, change["state"], change["size"])


def last_begun(memory):
    """The large file that was received last, of which there may be a part; None if not known."""
    with contextlib.suppress(OSError, ValueError), open(memory) as file:
        return json.load(file)


def _begin(top, change, memory):
    """Remembers a large file, for the next sync, which continues it or deletes its part."""
    last = last_begun(memory)
    if last and last != change:
        below, name = os.path.split(encoded(last["path"]))
        with contextlib.suppress(OSError), top.below(below) as folder:
            folder.remove(part_name(name, last["state"]))
    with contextlib.suppress(OSError):
        write_file(memory, json.dumps(change), mode=0o600)


def receive_contents(peer, root, changes, memory, report=lambda size: None):
    """Carries out *changes*; yields for each why it was not, or None.

    memory: the file about the last large one. Raises OSError when the disk is full, and what a peer
    raises; nothing is left of the file whose content was not whole, unless it is large.
    """
    with Folder.opened(encoded(root)) as top:  # once: its name may lead elsewhere later
        for number, change in enumerate(changes):
            try:
                if has_content(change["state"]):
                    _receive_file(peer, top, number, change, memory, report)
                else:
                    _carry_out(top, change)
                yield None
            except ChangeRefused as refused:
                yield str(refused)
            except NotReceived as error:
                yield SENT_CHANGED if error.of_sender else error.message or SENT_CHANGED
            except OSError as error:
                if error.errno in FULL:
                    raise
                yield error.strerror or str(error)


def _receive_file(peer, top, number, change, memory, report):
    path, state, size = change["path"], change["state"], change["size"]
    header = peer.receive()
    offset = header.get("offset")
    if header.get("file") != number or type(offset) is not int or not 0 <= offset <= size:
        raise protocol_error("a file that was not asked for")
    if not is_safe(path):
        skip_file(peer, size, offset, report)
        raise ChangeRefused("it is not below the folder")
    if size >= DELTA_FROM:
        _begin(top, change, memory)
    with received(
        peer,
        top,
        encoded(path),
        state,
        size,
        report,
        offset,
        known=state.split(" ")[1],
        make=True,
        mode=0o666,
    ) as (folder, name, file):
        _check(top, folder, name, change["expected"])
        if not file.is_mine():
            raise ChangeRefused("another sync wrote it at the same time")
        file.place(name, _mode(folder, name, file, state))


def _mode(folder, name, file, state):
    """The mode that the old file has, or a new one gets; executable as *state* says."""
    old = folder.mode_of(name)
    mode = file.info.st_mode & 0o777 if old is None else old
    return mode | (mode & 0o444) >> 2 if state.startswith("program ") else mode & ~0o111


def _carry_out(top, change):
    path, state, expected = change["path"], change["state"], change["expected"]
    target = None if state is None else state[len("link ") :]
    if not is_safe(path) or (target is not None and not is_inside(path, target)):
        raise ChangeRefused("it is not below the folder")
    below, name = os.path.split(encoded(path))
    if target is None:
        if _delete(top, below, name, expected):
            _remove_empty(top, below)
        return
    with top.below(below, make=True) as folder:
        _check(top, folder, name, expected)
        part = part_name(name, state)
        folder.remove(part)
        folder.make_link(part, encoded(target))
        folder.rename(part, name)


def _delete(top, below, name, expected):
    """Whether there was something to delete."""
    try:
        with top.below(below) as folder:
            _check(top, folder, name, expected)
            if expected is not None:
                folder.unlink(name)
    except FileNotFoundError:
        if expected is not None:
            raise ChangeRefused(_CHANGED) from None
    return expected is not None


def _check(top, folder, name, expected):
    if state_of(top, folder, name) != expected:
        raise ChangeRefused(_CHANGED)


def _remove_empty(top, path):
    while path:
        above, name = os.path.split(path)
        try:
            with top.below(above) as folder:
                folder.remove_folder(name)
        except OSError:
            return
        path = above

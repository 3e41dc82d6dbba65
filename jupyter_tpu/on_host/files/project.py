"""A project folder of this host, as a peer that a sync talks to over standard input and output.

Each request is a line of JSON; each answer is a line ``{"size": N}`` and N bytes of JSON that is
compressed with zlib, or ``{"error": [code, path, message]}``, after which the program ends.
"""

import contextlib
import hashlib
import json
import os
import signal
import sys
import time
import zlib

from ..calls.paths import HOME, private_dir, write_file
from .changes import (
    SENT_CHANGED,
    digest_of,
    kept_size_of,
    known_of,
    last_begun,
    receive_contents,
    receive_list,
    send_contents,
    send_list,
)
from .contents import signatures
from .messages import TransferFailure, TransferPeer, failure
from .other_host import other_host
from .part_file import FULL
from .tree import HashCache, Rules, TooLarge, entries, look_up, walk

#: Seconds to wait for another sync of the same folder.
_LOCK_TIMEOUT = 60
#: Characters of the reason why another host did not send.
_LONGEST_REASON = 200
#: What fails where another host sends something else.
_NOT_THIS = (TransferFailure, LookupError, TypeError, ValueError, AttributeError)


class ProjectFolder:
    """The folder *root*, and what we remember of it."""

    def __init__(self, root, peer):
        self.root = os.path.normpath(os.path.join(HOME, root[2:] if root[:2] == "~/" else root))
        if root == "~":
            self.root = HOME
        name = hashlib.blake2b(os.path.realpath(self.root).encode(), digest_size=16).hexdigest()
        self.ended = False
        self._peer = peer
        self._asked_root = root
        self._memory = os.path.join(private_dir("sync"), name)
        self._list = self._memory + ".list"
        self._begun = self._memory + ".begun"
        self.known: dict = {"hashes": {}, "paths": []}
        with contextlib.suppress(OSError, ValueError), open(self._memory + ".json") as file:
            self.known.update(json.load(file))

    @contextlib.contextmanager
    def lock(self):
        """Keeps others from the folder. At its end a list that was kept is deleted."""
        import fcntl

        with open(self._memory + ".lock", "w") as file:
            deadline = time.time() + _LOCK_TIMEOUT
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.time() > deadline:
                        raise TransferFailure("LOCKED", self.root) from None
                time.sleep(0.05)
            try:
                yield
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._list)

    def look_up(self, digest, paths=None):
        """The entries of *paths*; without them of those of the last time, if that is *digest*."""
        if paths is None:
            if digest_of(self.known["paths"]) != digest:
                return {"unknown": True}
            paths = self.known["paths"]
        cache = HashCache(self.known["hashes"])
        tree = look_up(self.root, paths, cache)
        self._remember(paths=paths, hashes=cache.fresh)
        return {"root": self.root, "tree": plain(tree), "kept": self._kept()}

    def _kept(self):
        """The large file that was not whole when a sync ended: {path: [state, bytes]}."""
        change = last_begun(self._begun)
        size = change and kept_size_of(self.root, change)
        return {change["path"]: [change["state"], size]} if size else {}

    def walk(self, rules, limits):
        """All entries that no rule leaves out."""
        if not os.path.isdir(self.root):
            raise TransferFailure("ENOENT", self.root)
        try:
            files, skipped = walk(self.root, Rules(rules), limits)
        except TooLarge as large:
            return {"too_large": list(large.args)}
        cache = HashCache(self.known["hashes"])
        tree = entries(self.root, files, cache, skipped)
        self._remember(hashes=dict(self.known["hashes"], **cache.fresh))
        return {"root": self.root, "tree": plain(tree), "skipped": skipped}

    def signatures(self, sizes):
        """sizes: what the files will have."""
        files = {path: (os.path.join(self.root, path), size) for path, size in sizes.items()}
        return signatures(files)

    def receive(self, count, list_id="", source=None):
        """Carries out *count* changes that follow: why each was not, or None; and why it ended
        early.

        list_id: the digest of the changes, whose list is kept for other hosts until the end; "":
        it is not. source: a command that starts Python on such a host, from which they come; then
        no results if they do not, and why, if that is known.
        """
        os.makedirs(self.root, exist_ok=True)
        changes: list = []
        results: list = []
        reason = ""
        try:
            with contextlib.ExitStack() as stack:
                peer = self._peer
                if source is not None:
                    request = {"root": self._asked_root, "list_id": list_id}
                    peer = stack.enter_context(other_host(source, **request))
                changes = receive_list(peer, count)
                if source is not None:
                    if digest_of(changes) != list_id:
                        return {"results": None, "why": "it has other files now"}
                    peer.send(known=known_of(self.root, changes))
                if list_id:
                    write_file(self._list, json.dumps(changes), mode=0o600)
                for result in receive_contents(peer, self.root, changes, self._begun):
                    results.append(result)
                peer.receive_end()
        except OSError as error:
            if source is None or error.errno in FULL:
                self.ended = True  # what is left is not read
                why = failure(error, error.filename or self.root)
                return {"results": results, "problem": [why.code, why.path, why.message]}
            results += [SENT_CHANGED] * (len(changes) - len(results))
        except _NOT_THIS as error:
            if source is None:
                raise
            results += [SENT_CHANGED] * (len(changes) - len(results))
            reason = error.message if isinstance(error, TransferFailure) else ""
        if not changes:
            return {"results": None, "why": _line(reason)}
        return {"results": results}

    def pass_on(self, list_id):
        """Sends the changes of a list that is kept, and their contents as they are here now."""
        with open(self._list) as file:
            changes = json.load(file)
        if digest_of(changes) == list_id:
            send_list(self._peer, changes)
            known = self._peer.receive(len(changes))["known"]
            send_contents(self._peer, self.root, changes, known)
            self._peer.send_end()

    def send(self, changes, known):
        """Sends the contents for *changes*, for a receiver that has what is *known*."""
        self._peer.compress()
        send_contents(self._peer, self.root, changes, known)
        self._peer.send_end()

    def _remember(self, **news):
        self.known.update(news)
        with contextlib.suppress(OSError):  # it is only quicker with it
            write_file(self._memory + ".json", json.dumps(self.known), mode=0o600)


def _line(text):
    """For the log of an operation, from another host."""
    return "".join(filter(str.isprintable, text))[:_LONGEST_REASON].strip().rstrip(".")


def plain(tree):
    return {path: [entry.state, entry.size, entry.time] for path, entry in tree.items()}


def write_out(data):
    sys.stdout.buffer.write(data)


def answer(value):
    data = zlib.compress(json.dumps(value).encode())
    write_out(json.dumps({"size": len(data)}).encode() + b"\n" + data)
    sys.stdout.buffer.flush()


def main():
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    requests = iter(sys.stdin.buffer.readline, b"")
    peer = TransferPeer(sys.stdin.buffer, sys.stdout.buffer)
    try:
        first = json.loads(next(requests))
        project = ProjectFolder(first["root"], peer)
        if "list_id" in first:
            project.pass_on(first["list_id"])
            return
        with project.lock():
            for line in requests:
                request = json.loads(line)
                call = request.pop("call")
                value = getattr(project, call)(**request)
                if call != "send":
                    answer(value)
                if project.ended:
                    return
    except BrokenPipeError:
        os._exit(1)  # no one reads, so Python's own flush would fail, too
    except (TransferFailure, OSError) as error:
        why = error if isinstance(error, TransferFailure) else failure(error, error.filename or b"")
        if why.code in ("LOST", "PROTOCOL"):
            os._exit(1)
        write_out(json.dumps({"error": [why.code, why.path, why.message]}).encode() + b"\n")

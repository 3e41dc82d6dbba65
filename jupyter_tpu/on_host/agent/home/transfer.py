"""Saves home folders in a bucket, and restores them. What is there exists when all of it is.

A file is stored in parts, each by the hash of its content: what is there already is not sent again.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import os
import secrets
import shutil
import stat
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Set, Tuple

from . import state
from .chosen import (
    MOST_FILES,
    PART_PREFIX,
    Chosen,
    TooManyFiles,
    chosen_files,
    is_plain,
    is_private_key,
)
from .storage import PART_BYTES, HomeStorage, SessionError

#: Bytes that are on their way at once.
_IN_FLIGHT_BYTES = 128 << 20
#: Seconds: a file that was changed so shortly before it was read may have changed since in the same
#: tick of its clock.
_SETTLED_SECONDS = 2.0
#: Small files are saved first, whatever the limit is; bytes.
_SMALL_BYTES = 1 << 20
#: Bytes of the host's disk that a restore leaves free.
_SPARE_BYTES = 256 << 20
_SKELETON = "/etc/skel"
_CHANGING = "it was changed while it was read"
#: The states of a stored file: its mode, time, size and the digests of its parts.
_MODE, _TIME, _SIZE, _PARTS = range(4)

Progress = Callable[[int, int], None]
Setting = Dict[str, Any]


class _Changed(Exception):
    """A file changes while it is read."""


class _IsKey(Exception):
    """A file is a private key."""


def save(home: str, setting: Setting, progress: Progress) -> Dict[str, Any]:
    """What was saved; nothing is written if it is there already. Raises SessionError.

    setting: ``place``, ``project``, ``tpu``, ``key``, ``folders``, ``limit`` (bytes), ``about``.
    progress: called with the bytes that are done, and all.
    """
    storage, name = _storage(setting), str(setting["tpu"])
    before, generation = storage.manifest(name)
    known = state.known_copies(setting)
    if before is not None and before["id"] not in known:
        raise SessionError(
            "%s has home folders of %s that this TPU does not have, saved %s. Restore them first: "
            "jupyter tpu home restore %s"
            % (setting["place"], name, _time_text(before["saved"]), name)
        )
    try:
        found = chosen_files(home, setting["folders"])
    except TooManyFiles:
        raise SessionError(
            "The chosen folders have more than %d files. Choose others." % MOST_FILES
        ) from None
    files = _within(found, int(setting["limit"]))
    upload = _Upload(home, storage, name, before, progress)
    entries = upload.files(files, found.left_out)
    manifest: Dict[str, Any] = {
        "files": entries,
        "links": found.links,
        "folders": found.folders,
        "left_out": found.left_out[:1000],
        "left_out_count": len(found.left_out),
        "bytes": sum(entry[_SIZE] for entry in entries.values()),
    }
    saved = before["saved"] if before is not None else 0.0
    if before is None or any(before.get(field) != _plain(manifest[field]) for field in manifest):
        own = secrets.token_hex(16)
        # A process that is killed from here on does not know which of them is in the bucket.
        state.note_copies(setting, [*([before["id"]] if before is not None else []), own])
        saved = time.time()
        more = {"id": own, "saved": saved, "about": setting["about"]}
        storage.write_manifest(name, {**manifest, **more}, generation)
        state.note_copies(setting, [own])
    storage.remove_parts(name, upload.before - _digests(entries))
    return {
        "state": "saved",
        "saved": saved,
        "files": len(entries) + len(found.links),
        "size": manifest["bytes"],
        "new": upload.sent,
        "left_out": found.left_out[:100],
        "left_out_count": len(found.left_out),
    }


class _Upload:
    def __init__(
        self,
        home: str,
        storage: HomeStorage,
        name: str,
        before: Optional[Dict[str, Any]],
        progress: Progress,
    ) -> None:
        self._home = home
        self._storage = storage
        self._name = name
        self._known: Dict[str, Any] = before["files"] if before is not None else {}
        self._saved = before["saved"] if before is not None else 0.0
        self._progress = progress
        #: The parts that were there.
        self.before = storage.parts(name)
        self._there = set(self.before)
        self._calls: "List[Tuple[Any, int]]" = []
        self._flying = 0
        self._done = self._total = 0
        #: Bytes that were written.
        self.sent = 0

    def files(
        self, files: "Dict[str, os.stat_result]", left_out: "List[Tuple[str, str]]"
    ) -> Dict[str, Any]:
        """The entries of these files, when all that they name is there."""
        entries: Dict[str, Any] = {}
        unread = {}
        for path, info in files.items():
            known = self._known.get(path)
            if known is not None and self._is_same(known, info):
                entries[path] = [stat.S_IMODE(info.st_mode), *known[1:]]
            else:
                unread[path] = info
        self._total = sum(info.st_size for info in unread.values())
        self._progress(0, self._total)
        for path, info in unread.items():
            why = ""
            try:
                entries[path] = self._read(path)
            except _Changed:
                why = _CHANGING
            except _IsKey:
                why = "a private key"
            except FileNotFoundError:
                continue
            except OSError as error:
                why = error.strerror or "it can't be read"
            if why:
                left_out.append((path, why))
                known = self._known.get(path)
                if why == _CHANGING and known is not None and self._has(known):
                    entries[path] = known  # as it was
            self._done += info.st_size
            self._progress(self._done, self._total)
        self._wait(0)
        return entries

    def _is_same(self, known: "List[Any]", info: os.stat_result) -> bool:
        """Whether a file is what was saved: by its size and time, if that was settled then."""
        same = (known[_TIME], known[_SIZE]) == (info.st_mtime_ns, info.st_size)
        return same and info.st_mtime < self._saved - _SETTLED_SECONDS and self._has(known)

    def _has(self, known: "List[Any]") -> bool:
        return all(digest in self.before for digest in known[_PARTS])

    def _read(self, path: str) -> "List[Any]":
        for _ in range(2):
            try:
                return self._read_once(path)
            except _Changed:
                continue
        raise _Changed

    def _read_once(self, path: str) -> "List[Any]":
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
        with open(os.open(os.path.join(self._home, path), flags), "rb", 0) as file:
            info = os.fstat(file.fileno())
            if not stat.S_ISREG(info.st_mode):
                raise _Changed
            parts: List[str] = []
            size = 0
            for data in _parts(file):
                if not parts and is_private_key(data, info.st_size):
                    raise _IsKey
                size += len(data)
                if size > info.st_size:
                    raise _Changed
                digest = hashlib.sha256(data).hexdigest()
                parts.append(digest)
                self._send(digest, data)
                self._progress(min(self._done + size, self._total), self._total)
            after = os.fstat(file.fileno())
        if (size, info.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise _Changed
        return [stat.S_IMODE(info.st_mode), info.st_mtime_ns, size, parts]

    def _send(self, digest: str, data: bytes) -> None:
        if digest in self._there:
            return
        self._wait(_IN_FLIGHT_BYTES - len(data))
        self._calls.append((self._storage.begin_write(self._name, digest, data), len(data)))
        self._there.add(digest)
        self._flying += len(data)
        self.sent += len(data)

    def _wait(self, most: int) -> None:
        """Until no more bytes than *most* are on their way."""
        while self._calls and (self._flying > most or most == 0):
            call, size = self._calls.pop(0)
            self._storage.end(call)
            self._flying -= size


def _parts(file: Any) -> "Iterator[bytes]":
    while True:
        data = b""
        while len(data) < PART_BYTES:
            more = file.read(PART_BYTES - len(data))
            if not more:
                break
            data = data + more if data else more
        if data:
            yield data
        if len(data) < PART_BYTES:
            return


def _within(found: Chosen, limit: int) -> "Dict[str, os.stat_result]":
    """The files that are saved: small ones, then what was changed last, up to *limit* bytes."""

    def rank(item: "Tuple[str, os.stat_result]") -> "Tuple[bool, float, str]":
        path, info = item
        return info.st_size > _SMALL_BYTES, -info.st_mtime, path

    kept, size = {}, 0
    for path, info in sorted(found.files.items(), key=rank):
        if size + info.st_size > limit:
            found.left_out.append((path, "over the limit of %s" % size_text(limit)))
        else:
            kept[path] = info
            size += info.st_size
    return kept


def _digests(entries: Dict[str, Any]) -> Set[str]:
    return {digest for entry in entries.values() for digest in entry[_PARTS]}


def _plain(value: Any) -> Any:
    """A value as JSON gives it back."""
    return [list(pair) for pair in value] if isinstance(value, list) else value


# ---- the other way


def restore(home: str, setting: Setting, progress: Progress, *, again: bool) -> Dict[str, Any]:
    """Brings back what is in the bucket, unless this disk has it; *again*: also then.

    A file that is newer here stays, and is named. Raises SessionError.
    """
    storage, name = _storage(setting), str(setting["tpu"])
    manifest, _ = storage.manifest(name)
    if manifest is None:
        return {"state": "empty"}
    known = state.known_copies(setting)
    if manifest["id"] in known and not again:
        return {"state": "same", "saved": manifest["saved"], **_counted(manifest)}
    download = _Download(home, storage, name, manifest, progress)
    download.run()
    os.sync()  # what is noted is there after a power failure, too
    state.note_copies(setting, [manifest["id"]])
    return {
        "state": "restored",
        "saved": manifest["saved"],
        **_counted(manifest),
        "new": download.written,
        "kept": download.kept[:100],
        "kept_count": len(download.kept),
        "replaced": download.replaced[:100],
        "replaced_count": len(download.replaced),
    }


def _counted(manifest: Dict[str, Any]) -> Dict[str, Any]:
    return {
        "files": len(manifest["files"]) + len(manifest["links"]),
        "size": manifest["bytes"],
        "left_out": manifest["left_out"][:100],
        "left_out_count": manifest["left_out_count"],
    }


class _Download:
    def __init__(
        self,
        home: str,
        storage: HomeStorage,
        name: str,
        manifest: Dict[str, Any],
        progress: Progress,
    ) -> None:
        self._home = home
        self._storage = storage
        self._name = name
        self._manifest = manifest
        self._progress = progress
        self._made: Dict[str, int] = {}
        #: What is there and stays, and what was replaced, since it was older.
        self.kept: List[str] = []
        self.replaced: List[str] = []
        self.written = 0

    def run(self) -> None:
        stored = self._manifest["files"]
        try:
            files = {path: stored[path] for path in sorted(stored) if self._due(path, stored[path])}
            total = sum(entry[_SIZE] for entry in files.values())
            free = shutil.disk_usage(self._home).free
            if total + _SPARE_BYTES > free:
                raise SessionError(
                    "The home folders need %s, and the host's disk has %s left."
                    % (size_text(total), size_text(free))
                )
            self._progress(0, total)
            for path, mode in sorted(self._manifest["folders"].items()):
                if is_plain(path):
                    self._make_folder(path, mode)
            self._write_all(files, total)
            for path, target in sorted(self._manifest["links"].items()):
                self._link(path, target)
            for path, mode in sorted(self._made.items(), reverse=True):
                os.chmod(os.path.join(self._home, path), mode)
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise SessionError("The host's disk is full.") from None
            raise SessionError("The home folders can't be written: %s." % error) from None

    def _due(self, path: str, entry: "List[Any]") -> bool:
        """Whether a file is to be written."""
        full = os.path.join(self._home, path)
        if not is_plain(path) or not self._has_real_folders(path):
            self.kept.append(path)
            return False
        try:
            info = os.lstat(full)
        except FileNotFoundError:
            return True
        if not stat.S_ISREG(info.st_mode):
            self.kept.append(path)
            return False
        if info.st_size == entry[_SIZE] and _has_content(full, entry[_PARTS]):
            os.chmod(full, entry[_MODE])
            os.utime(full, ns=(entry[_TIME], entry[_TIME]))
            return False
        if _is_untouched(full, path):
            return True
        if info.st_mtime_ns >= entry[_TIME]:
            self.kept.append(path)
            return False
        self.replaced.append(path)
        return True

    def _has_real_folders(self, path: str) -> bool:
        """Whether nothing on its way is a link, or something else than a folder."""
        parts = path.split("/")[:-1]
        for number in range(len(parts)):
            try:
                info = os.lstat(os.path.join(self._home, *parts[: number + 1]))
            except FileNotFoundError:
                return True
            if not stat.S_ISDIR(info.st_mode):
                return False
        return True

    def _make_folder(self, path: str, mode: int) -> None:
        if not self._has_real_folders(path + "/x"):
            return
        parts = path.split("/")
        for number in range(len(parts)):
            folder = "/".join(parts[: number + 1])
            try:
                os.mkdir(os.path.join(self._home, folder), 0o700)
            except FileExistsError:
                continue
            self._made[folder] = mode if folder == path else 0o700

    def _write_all(self, files: "Dict[str, List[Any]]", total: int) -> None:
        """Reads parts ahead, in the order in which they are written."""
        order = [(path, digest) for path, entry in files.items() for digest in entry[_PARTS]]
        calls: "List[Any]" = []
        ahead = _IN_FLIGHT_BYTES // PART_BYTES
        following = iter(order)

        def read() -> bytes:
            while len(calls) < ahead:
                following_part = next(following, None)
                if following_part is None:
                    break
                digest = following_part[1]
                calls.append((digest, self._storage.begin_read(self._name, digest)))
            digest, call = calls.pop(0)
            data = bytes(self._storage.end(call).value)
            if not hmac.compare_digest(hashlib.sha256(data).hexdigest(), digest):
                raise SessionError(
                    "A part of the home folders of %s is missing or damaged." % self._name
                )
            return data

        for path, entry in files.items():
            folder, _, name = path.rpartition("/")
            if folder:
                self._make_folder(folder, 0o700)
            hashed = hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
            part = os.path.join(self._home, folder, PART_PREFIX + hashed)
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            with open(os.open(part, flags, 0o600), "wb") as file:
                os.fchmod(file.fileno(), 0o600)
                for _ in entry[_PARTS]:
                    data = read()
                    file.write(data)
                    self.written += len(data)
                    self._progress(self.written, total)
                file.flush()
                os.fchmod(file.fileno(), entry[_MODE])
                os.utime(file.fileno(), ns=(entry[_TIME], entry[_TIME]))
            os.replace(part, os.path.join(self._home, path))

    def _link(self, path: str, target: str) -> None:
        full = os.path.join(self._home, path)
        if not is_plain(path) or not self._has_real_folders(path):
            self.kept.append(path)
            return
        folder = os.path.dirname(path)
        if folder:
            self._make_folder(folder, 0o700)
        leads = os.path.realpath(os.path.join(os.path.dirname(full), target))
        if not (leads + os.sep).startswith(os.path.realpath(self._home) + os.sep):
            self.kept.append(path)
            return
        try:
            os.symlink(target, full)
        except FileExistsError:
            if not os.path.islink(full) or os.readlink(full) != target:
                self.kept.append(path)


def _has_content(full: str, parts: "List[str]") -> bool:
    try:
        with open(os.open(full, os.O_RDONLY | os.O_NOFOLLOW), "rb", 0) as file:
            return [hashlib.sha256(data).hexdigest() for data in _parts(file)] == parts
    except OSError:
        return False


def _is_untouched(full: str, path: str) -> bool:
    """Whether a file is what every new home has."""
    try:
        with open(os.path.join(_SKELETON, path), "rb") as skeleton, open(full, "rb") as file:
            return skeleton.read() == file.read()
    except OSError:
        return False


def forget(setting: Setting) -> Dict[str, Any]:
    """Deletes what is in the bucket. Raises SessionError."""
    forgotten = _storage(setting).forget(str(setting["tpu"]))
    if state.known_copies(setting):  # not those of another TPU, which this host has deleted
        state.note_copies(setting, [])
    return {"state": "forgotten" if forgotten else "empty"}


def _storage(setting: Setting) -> HomeStorage:
    return HomeStorage(setting["place"], setting["project"], bytes.fromhex(setting["key"]))


def size_text(size: float) -> str:
    """Bytes for people, as the client writes them."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return "%.3g %s" % (size, unit)
        size /= 1000
    return "%.3g GB" % size


def _time_text(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))

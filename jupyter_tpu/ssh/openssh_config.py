"""Entries for hosts in the configuration of the user's own OpenSSH (ssh, scp, rsync, git, VS Code).

The entries are in a file of ours, which is written whole each time. The user's own file gets one
Include line at its top, if they ask for it; nothing else in it is changed. An entry has no address:
its ProxyCommand looks it up at each connection, and writes the host's keys to a file.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from ..errors import InvalidInput, Reason, TPUError
from ..local_files import write_atomically
from ..paths import data_dir, private_dir

_HEAD = "# Written by jupyter-tpu whenever TPUs change. Your changes here will be lost.\n"
_SECTION = re.compile(rb"^[ \t]*(?:host|match)(?:[ \t=]|$)", re.IGNORECASE)
_INCLUDE = re.compile(rb"^[ \t]*include(?:[ \t]*=[ \t]*|[ \t]+)(.*)$", re.IGNORECASE)
#: One word of a line, with its quotes and the blanks before it.
_WORD = re.compile(rb"""[ \t]*((?:"(?:\\.|[^"\\])*"|'[^']*'|\\.|[^ \t"'\\])+)""")


class HostEntry(Struct, frozen=True, kw_only=True):
    """One host, for `ssh NAME`."""

    names: tuple[str, ...]
    #: A name that no other host has or had. It is no address: the proxy finds that. A connection
    #: that the user's OpenSSH shares (`ControlPath` with %C or %h) is one to the host of this name.
    host_name: str
    user: str
    #: The name under which its keys are in *known_hosts*, a file of its own.
    alias: str
    known_hosts: Path
    identity_file: Path
    #: The command that connects its standard input and output to the host's SSH port.
    proxy: tuple[str, ...]

    def options(self) -> list[tuple[str, str]]:
        """The entry's options of ssh_config, in order; `ssh -o` takes them, too."""
        return [
            ("HostName", self.host_name),
            ("User", self.user),
            ("HostKeyAlias", self.alias),
            ("UserKnownHostsFile", _path(self.known_hosts)),
            ("GlobalKnownHostsFile", "/dev/null"),
            ("StrictHostKeyChecking", "yes"),
            ("UpdateHostKeys", "no"),
            ("CheckHostIP", "no"),
            ("IdentityFile", _path(self.identity_file)),
            ("IdentitiesOnly", "yes"),
            ("ProxyCommand", _command(self.proxy)),
            ("ProxyUseFdpass", "no"),
            # Settings that people have for all hosts would break rsync and git, and our commands.
            ("RemoteCommand", "none"),
            ("RequestTTY", "auto"),
            # A host that hangs takes the connection and says nothing. Looking it up takes a while.
            ("ConnectTimeout", "90"),
            # Two minutes without an answer mean that the host is gone, not only slow.
            ("ServerAliveInterval", "20"),
            ("ServerAliveCountMax", "6"),
            ("Ciphers", "^aes128-gcm@openssh.com"),
            ("Compression", "no"),
        ]


def render(entries: Iterable[HostEntry]) -> str:
    """Entries as text of ssh_config."""
    parts = []
    for entry in entries:
        lines = [f"Host {' '.join(entry.names)}"]
        lines += (f"    {name} {value}" for name, value in entry.options())
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


# ---- our file ----------------------------------------------------------------------------------


def config_path() -> Path:
    """The path of our file, which may not exist."""
    return data_dir() / "ssh" / "config"


def write_section(name: str, entries: Sequence[HostEntry], state_file: str | None = None) -> bool:
    """Replaces the entries of one cloud; False if nothing changed.

    name: "google", or an emulator's. state_file: the emulator's; its entries are removed when the
    file is gone.
    """
    folder = private_dir(config_path().parent)
    sections = private_dir(folder / "sections")
    text = (f"# state file: {state_file}\n" if state_file else "") + render(entries)
    changed = _write(sections / name, text)
    for path in sections.iterdir():
        if _is_stale(path):
            path.unlink(missing_ok=True)
    # Real TPUs first: the first entry of a name wins.
    paths = sorted(sections.glob("[!.]*"), key=lambda path: (path.name != "google", path.name))
    parts = []
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            parts.append(path.read_text(encoding="utf-8"))
    return _write(config_path(), "\n".join([_HEAD, *parts])) or changed


def _is_stale(section: Path) -> bool:
    try:
        first = section.read_text(encoding="utf-8").partition("\n")[0]
    except FileNotFoundError:
        return False
    _, mark, state_file = first.partition("# state file: ")
    return bool(mark) and not Path(state_file).exists()


def write_host_keys(path: Path, keys: Iterable[str]) -> None:
    """Writes the *keys* ("TYPE BASE64") that a host may have; the file's name is its alias."""
    lines = (f"{path.name} {' '.join(key.split()[:2])}\n" for key in keys)
    _write(path, "".join(lines))


# ---- the user's file ---------------------------------------------------------------------------


def include_line(target: Path) -> str:
    """The line that includes *target*; raises INVALID for names that Include can't take."""
    if any(sign in str(target) for sign in "%*?["):  # tokens since OpenSSH 9.9, and wildcards
        raise _unsupported_path(str(target))
    return f"Include {_path(target)}"


def includes(text: bytes, target: Path) -> bool:
    """Whether a configuration includes *target* for all hosts."""
    top, _ = _split(text)
    return any(_includes(line, target) for line in top)


def with_include(text: bytes, target: Path) -> bytes:
    """*text* with our line at its top, unless it is there; the rest stays, byte for byte."""
    if includes(text, target):
        return text
    end = b"\r\n" if text.partition(b"\n")[0].endswith(b"\r") else b"\n"
    return include_line(target).encode() + end + text


def without_include(text: bytes, target: Path) -> bytes:
    """*text* without what :func:`includes` finds, however it is written; the rest stays."""
    top, rest = _split(text)
    kept = [_without_word(line, target) if _includes(line, target) else line for line in top]
    return b"".join(kept) + rest


def entries_named(text: bytes, names: Iterable[str]) -> list[str]:
    """The *names* for which a configuration has entries of its own; ours override them."""
    aliases, named = set(names), []
    for line in text.splitlines():
        if _SECTION.match(line) and line.split()[0].lower() == b"host":
            named += [
                name for name in line.decode("utf-8", "replace").split()[1:] if name in aliases
            ]
    return named


def read_user_config(path: Path) -> bytes:
    """The user's configuration; empty if there is none. Raises PERMISSION if it can't be read."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except IsADirectoryError:
        raise TPUError(
            f"{path} is a folder, but OpenSSH needs a file there.",
            Reason.PERMISSION,
            "Rename or remove the folder, then try again.",
        ) from None
    except OSError as error:
        raise TPUError(
            f"{path} could not be read: {error.strerror or error}.",
            Reason.PERMISSION,
            "Check who owns it and its permissions.",
        ) from error


def change_user_config(path: Path, target: Path, *, add: bool) -> bool:
    """Adds our Include line to the user's configuration, or removes it; False if nothing changed.

    The file is replaced in one step and keeps its mode; a symbolic link is followed. Raises
    CONFLICT if another program wrote it at the same moment, and PERMISSION if it can't be changed
    or belongs to another user; it then stays as it was.
    """
    before = read_user_config(path)
    after = (with_include if add else without_include)(before, target)
    if after == before:
        return False
    line = include_line(target)
    by_hand = (
        f"Add this line at its top yourself: {line}"
        if add
        else f"Remove this line yourself: {line}"
    )
    real = Path(os.path.realpath(path))
    try:
        _check_owner(path, real if real.exists() else real.parent, by_hand)
        private_dir(real.parent)
        mode = real.stat().st_mode & 0o777 if real.exists() else 0o600
        if read_user_config(real) != before:
            raise TPUError(
                f"{path} is being written by another program.", Reason.CONFLICT, "Try again."
            )
        write_atomically(real, after, mode=mode)
    except OSError as error:
        raise TPUError(
            f"{path} could not be changed: {error.strerror or error}.", Reason.PERMISSION, by_hand
        ) from error
    return True


def _check_owner(path: Path, existing: Path, by_hand: str) -> None:
    """Replacing a file makes it ours: its owner's ssh would then refuse it."""
    if not existing.exists():
        return
    owner = existing.stat().st_uid
    if owner != os.geteuid():
        try:
            name = existing.owner()
        except KeyError:
            name = f"ID {owner}"
        raise TPUError(
            f"{path} belongs to another user ({name}).",
            Reason.PERMISSION,
            f"Run this command as that user. {by_hand}",
        )


def _split(text: bytes) -> tuple[list[bytes], bytes]:
    """The lines that apply to all hosts, which are those before the first Host or Match, with
    their ends, and the rest.
    """
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if _SECTION.match(line):
            return lines[:number], b"".join(lines[number:])
    return lines, b""


def _includes(line: bytes, target: Path) -> bool:
    return any(_names(word[1], target) for word in _included(line))


def _without_word(line: bytes, target: Path) -> bytes:
    """An Include line without *target*; empty if it included nothing else."""
    words = _included(line)
    if all(_names(word[1], target) for word in words):
        return b""
    for word in reversed(words):
        if _names(word[1], target):
            line = line[: word.start()] + line[word.end() :]
    return line


def _included(line: bytes) -> list[re.Match[bytes]]:
    """The words of an Include line as they are written, up to a comment; none of other lines."""
    match = _INCLUDE.match(line.rstrip(b"\r\n"))
    if not match:
        return []
    words, end = [], match.start(1)
    while (word := _WORD.match(match.string, end)) and not word[1].startswith(b"#"):
        words.append(word)
        end = word.end()
    return words


def _names(word: bytes, target: Path) -> bool:
    """Whether a word, with its quotes, is *target*."""
    try:
        [path] = shlex.split(word.decode("utf-8", "surrogateescape"))
    except ValueError:
        return False
    return Path(path).expanduser() == target


def _write(path: Path, text: str) -> bool:
    """Writes a file of ours (0600) in one step; False if nothing changed."""
    data = text.encode()
    if path.exists() and path.read_bytes() == data:
        return False
    private_dir(path.parent)
    return write_atomically(path, data)


def _path(path: Path) -> str:
    """A file name for ssh_config: in quotes, with each percent sign doubled."""
    text = str(path)
    if '"' in text or "\n" in text or "${" in text:
        raise _unsupported_path(text)
    return '"' + text.replace("%", "%%") + '"'


def _unsupported_path(path: str) -> TPUError:
    return InvalidInput(
        f"OpenSSH can't use a file with the name {path!r}.",
        "Choose another folder with JUPYTER_TPU_DATA_DIR.",
    )


def _command(words: Sequence[str]) -> str:
    return shlex.join(words).replace("%", "%%")

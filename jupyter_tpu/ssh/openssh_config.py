"""Entries for hosts in the configuration of the user's own OpenSSH (ssh, scp, rsync, git, VS Code).

The entries are in a file of ours, which is written whole each time. The user's own file gets one
Include line at its top, if they ask for it; nothing else in it is changed. An entry has no address:
its ProxyCommand looks it up at each connection, and writes the host's keys to a file.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from ..errors import InvalidInput, Reason, TPUError
from ..files import write_atomically
from ..paths import data_dir, private_dir

_HEAD = "# Written by jupyter-tpu whenever TPUs change. Your changes here will be lost.\n"
_SECTION = re.compile(rb"^[ \t]*(?:host|match)(?:[ \t=]|$)", re.IGNORECASE)
_INCLUDE = re.compile(rb"^[ \t]*include(?:[ \t]+|[ \t]*=[ \t]*)(.*)$", re.IGNORECASE)


class HostEntry(Struct, frozen=True, kw_only=True):
    """One host, for `ssh NAME`."""

    names: tuple[str, ...]
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
    found = sorted(sections.glob("[!.]*"), key=lambda path: (path.name != "google", path.name))
    parts = []
    for path in found:
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
    return any(_includes(line, target) for line in _top(text))


def with_include(text: bytes, target: Path) -> bytes:
    """*text* with our line at its top, unless it is there; the rest stays, byte for byte."""
    if includes(text, target):
        return text
    end = b"\r\n" if text.partition(b"\n")[0].endswith(b"\r") else b"\n"
    return include_line(target).encode() + end + text


def without_include(text: bytes, target: Path) -> bytes:
    """*text* without the line that :func:`with_include` added."""
    ours = include_line(target).encode()
    lines = text.splitlines(keepends=True)
    return b"".join(line for line in lines if line.rstrip(b"\r\n") != ours)


def entries_named(text: bytes, names: Iterable[str]) -> list[str]:
    """The *names* for which a configuration has entries of its own; ours override them."""
    wanted, found = set(names), []
    for line in text.splitlines():
        if _SECTION.match(line) and line.split()[0].lower() == b"host":
            found += [
                name for name in line.decode("utf-8", "replace").split()[1:] if name in wanted
            ]
    return found


def change_user_config(path: Path, target: Path, *, add: bool) -> bool:
    """Adds our Include line to the user's configuration, or removes it; False if nothing changed.

    The file is replaced in one step and keeps its mode; a symbolic link is followed. Raises
    CONFLICT if another program wrote it at the same moment, and PERMISSION if it can't be written;
    it then stays as it was.
    """
    try:
        real = path.resolve()
        before = _read(real)
        after = (with_include if add else without_include)(before, target)
        if after == before:
            return False
        private_dir(real.parent)
        mode = real.stat().st_mode & 0o777 if real.exists() else 0o600
        if _read(real) != before:
            raise TPUError(
                f"{path} is being written by another program.", Reason.CONFLICT, "Try again."
            )
        write_atomically(real, after, mode=mode)
    except OSError as error:
        raise TPUError(
            f"{path} could not be changed: {error.strerror or error}.",
            Reason.PERMISSION,
            f"Add this line at its top yourself: {include_line(target)}",
        ) from error
    return True


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _top(text: bytes) -> list[bytes]:
    """The lines that apply to all hosts: those before the first Host or Match."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if _SECTION.match(line):
            return lines[:number]
    return lines


def _includes(line: bytes, target: Path) -> bool:
    found = _INCLUDE.match(line)
    if not found:
        return False
    try:
        words = shlex.split(found[1].decode("utf-8", "surrogateescape"), comments=True, posix=True)
    except ValueError:
        return False
    return any(Path(word).expanduser() == target for word in words)


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

"""Machines that the user's own OpenSSH reaches: where they are, which key they show, and letting
our key log in.

What `ssh ALIAS` would do decides: `ssh -G` says the address, the user and the proxy. The user's
known hosts say which key is the machine's; an unknown one is never trusted without being asked for.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shlex
import shutil
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct

from ..errors import InvalidInput, Reason, TPUError
from ..files import write_atomically
from .address import HostAddress
from .keys import fingerprint, public_line

if TYPE_CHECKING:
    from asyncssh import SSHKey

#: Seconds: for `ssh -G`, which may run commands of `Match exec`; to see the host's key; to log in.
CONFIG_LIMIT, KEY_LIMIT, LOGIN_LIMIT = 15.0, 30.0, 60.0

#: What can't be an option, and means nothing to the shell that runs a ProxyCommand.
_ALIAS = re.compile(r"[\w.@:\[\]+][\w.@:\[\]+-]*")
#: The machine's name in the known hosts that are made for one login.
_KEY_ALIAS = "jupyter-tpu-attached"
#: Adds the line on standard input to the keys that may log in.
_AUTHORIZE = "umask 077; mkdir -p ~/.ssh && { echo; cat; } >> ~/.ssh/authorized_keys"


class UserHost(Struct, frozen=True, kw_only=True):
    """How the user's `ssh` reaches a machine."""

    alias: str
    address: str
    port: int
    user: str
    proxy_command: tuple[str, ...]
    #: Its name in the user's known hosts ("[HOST]:PORT" of another port), and their files.
    known_as: str
    known_hosts: tuple[Path, ...]

    def host_address(
        self, *, host_keys: tuple[str, ...], alias: str, name: str, identity_file: Path
    ) -> HostAddress:
        """For connections of ours; the arguments are fields of it."""
        return HostAddress(
            address=self.address,
            port=self.port,
            user=self.user,
            host_keys=host_keys,
            alias=alias,
            name=name,
            identity_file=identity_file,
            proxy_command=self.proxy_command,
        )


class ShownKey(Struct, frozen=True, kw_only=True):
    """The host key that a machine shows now."""

    key: str  # "TYPE BASE64"
    known: bool  # the user's known hosts have it

    @property
    def fingerprint(self) -> str:
        return fingerprint(self.key)


async def resolve(alias: str) -> UserHost:
    """What the user's configuration says of *alias*: an entry of it, or [USER@]HOST.

    Raises INVALID for what can't be a host, NOT_FOUND without an OpenSSH, and TIMEOUT.
    """
    if not _ALIAS.fullmatch(alias):
        raise InvalidInput(
            f"{alias!r} is not the name of a machine.",
            "Give what you give to `ssh`: an entry of ~/.ssh/config, or USER@HOST.",
        )
    code, out, err = await _ssh(["-G", "--", alias], limit=CONFIG_LIMIT)
    options: dict[str, str] = {}
    for line in out.splitlines():
        name, _, value = line.partition(" ")
        options.setdefault(name.lower(), value)
    if code or not options.get("hostname"):
        raise InvalidInput(
            f"`ssh -G {alias}` failed: {_last_line(err)}.", f"Make `ssh {alias}` work first."
        )
    address, port, user = options["hostname"], int(options["port"]), options["user"]
    if not _ALIAS.fullmatch(user):
        raise InvalidInput(
            f"The user {user!r} of {alias} can't be used: its name has special characters.",
            "Attach the machine as another user: USER@HOST.",
        )
    known_as = options.get("hostkeyalias", "none")
    if known_as == "none":
        known_as = address if port == 22 else f"[{address}]:{port}"
    files = f"{options.get('userknownhostsfile', '')} {options.get('globalknownhostsfile', '')}"
    return UserHost(
        alias=alias,
        address=address,
        port=port,
        user=user,
        proxy_command=_proxy(options, alias),
        known_as=known_as,
        known_hosts=_paths(files),
    )


def _paths(files: str) -> tuple[Path, ...]:
    return tuple(Path(each).expanduser() for each in files.split())


def _proxy(options: dict[str, str], alias: str) -> tuple[str, ...]:
    """The command that connects to the SSH port, where that is not reached directly."""
    address, port, user = options["hostname"], options["port"], options["user"]
    jumps = options.get("proxyjump", "none")
    if jumps != "none":
        *before, last = jumps.split(",")
        through = ("-J", ",".join(before)) if before else ()
        last = last if last.startswith("ssh://") else f"ssh://{last}"
        return ("ssh", "-o", "BatchMode=yes", *through, "-W", f"[{address}]:{port}", "--", last)
    command = options.get("proxycommand", "none")
    if command == "none":
        return ()
    # ssh -G leaves the tokens in it.
    values = {"%": "%", "h": address, "p": port, "r": user, "n": alias}
    words, rest = "", command
    while rest:
        before_token, mark, rest = rest.partition("%")
        words += before_token
        if mark:
            words += values.get(rest[:1], f"%{rest[:1]}")
            rest = rest[1:]
    return ("sh", "-c", f"exec {words}")


async def shown_key(host: UserHost) -> ShownKey:
    """Connects so far that the machine shows its key; nothing is sent to it.

    Raises HOST_KEY if the user's known hosts have another key of it, or have revoked it, and
    UNREACHABLE.
    """
    import asyncssh

    from .opening import failure_text, host_key_algorithms

    trusted, revoked = await asyncio.to_thread(_known, host)
    try:
        async with asyncio.timeout(KEY_LIMIT):
            shown = await asyncssh.get_server_host_key(
                host.address,
                host.port,
                proxy_command=list(host.proxy_command) or None,
                server_host_key_algs=host_key_algorithms([public_line(key) for key in trusted]),
                config=None,
            )
    except (asyncssh.Error, OSError, TimeoutError) as error:
        raise TPUError(
            f"{host.alias} ({host.address} port {host.port}) can't be reached: "
            f"{failure_text(error, KEY_LIMIT)}.",
            Reason.UNREACHABLE,
            f"Check that `ssh {host.alias}` works.",
        ) from error
    if shown is None:
        raise TPUError(f"{host.alias} showed no host key.", Reason.UNREACHABLE)
    key = public_line(shown)
    known = key in map(public_line, trusted)
    if key in map(public_line, revoked) or (trusted and not known):
        why = "has another key there" if not known else "is revoked there"
        raise TPUError(
            f"{host.alias} shows the host key {fingerprint(key)}, but {host.known_as} {why} (in "
            "your known hosts).",
            Reason.HOST_KEY,
            "Someone may be intercepting the connection. If you know that the machine was "
            f"reinstalled, correct your known hosts with `ssh-keygen -R '{host.known_as}'`.",
        )
    return ShownKey(key=key, known=known)


def _known(host: UserHost) -> tuple[list[SSHKey], list[SSHKey]]:
    """The keys that the user's known hosts have of it, and those that they revoke."""
    import asyncssh

    trusted: list[SSHKey] = []
    revoked: list[SSHKey] = []
    for path in host.known_hosts:
        try:
            text = path.read_bytes()
        except OSError:
            continue  # ssh does without it, too
        for line in text.splitlines():  # one that can't be read spoils no other
            with contextlib.suppress(ValueError):
                found = asyncssh.match_known_hosts(line, host.known_as, "", None)
                trusted += found[0]
                revoked += found[2]
    return trusted, revoked


async def authorize(host: UserHost, key: str, public_key: str) -> None:
    """Lets *public_key* log in, through the user's own `ssh`, which may know other ways in.

    key: the machine's only host key that is accepted. Raises PERMISSION if `ssh` can't log in
    without a question.
    """
    with tempfile.TemporaryDirectory(prefix="jupyter-tpu-") as folder:
        known = Path(folder, "known_hosts")
        write_atomically(known, f"{_KEY_ALIAS} {key}\n")
        kind = key.split()[0]
        options = {
            "BatchMode": "yes",
            "StrictHostKeyChecking": "yes",
            "UserKnownHostsFile": str(known),
            "GlobalKnownHostsFile": "/dev/null",
            "HostKeyAlias": _KEY_ALIAS,
            "HostKeyAlgorithms": "rsa-sha2-512,rsa-sha2-256" if kind == "ssh-rsa" else kind,
            "UpdateHostKeys": "no",
            "CheckHostIP": "no",
            "ControlPath": "none",  # a connection that is open was checked against other keys
            "ClearAllForwardings": "yes",
            "RemoteCommand": "none",
            "ConnectTimeout": "20",
        }
        words = [word for each in options.items() for word in ("-o", "=".join(each))]
        code, _, err = await _ssh(
            ["-T", *words, "--", host.alias, shlex.join(["sh", "-c", _AUTHORIZE])],
            limit=LOGIN_LIMIT,
            input=f"{public_key} jupyter-tpu\n".encode(),
        )
    if code:
        raise TPUError(
            f"`ssh {host.alias}` can't log in without a question: {_last_line(err)}.",
            Reason.PERMISSION,
            f"Make `ssh {host.alias}` work with a key and without a password, then try again.",
        )


async def _ssh(
    arguments: Sequence[str], *, limit: float, input: bytes = b""
) -> tuple[int, str, str]:
    """Runs the user's OpenSSH; its exit code and output."""
    program = shutil.which("ssh")
    if program is None:
        raise TPUError("OpenSSH is not installed here.", Reason.NOT_FOUND, "Install it.")
    pipe = asyncio.subprocess.PIPE
    # A task: a cancelled `create_subprocess_exec` waits for all that `ssh` has started by then.
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            program, *arguments, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
    )
    try:
        async with asyncio.timeout(limit):
            process = await asyncio.shield(starting)
            out, err = await process.communicate(input)
    except TimeoutError:
        raise TPUError(
            f"ssh did not end within {limit:g} s.",
            Reason.TIMEOUT,
            "Check that `ssh` works in a terminal.",
        ) from None
    finally:
        process = await asyncio.shield(starting)
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                _kill(process)
            await process.wait()
    return process.returncode or 0, out.decode(errors="replace"), err.decode(errors="replace")


def _kill(process: asyncio.subprocess.Process) -> None:
    """Also what `ssh` has started: commands of `Match exec`, and proxies."""
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else "it said nothing"

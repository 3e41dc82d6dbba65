"""Machines that the user's own OpenSSH reaches: where they are, which key they show, and letting
our key log in.

What `ssh ALIAS` would do decides: `ssh -G` says the address, the user and the proxy, and `ssh` says
whether it knows the machine's key. An unknown one is never trusted without being asked for.
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

from msgspec import Struct

from ..errors import InvalidInput, Reason, TPUError
from ..local_files import write_atomically
from .address import HostAddress
from .keys import fingerprint, public_line
from .login_shell import ENDED, OUTPUT_MARK, login_shell_error, marked_line

#: Seconds: for `ssh -G`, which may run commands of `Match exec`; to see the host's key; to log in.
CONFIG_LIMIT, KEY_LIMIT, LOGIN_LIMIT = 15.0, 30.0, 60.0

#: What can't be an option, and means nothing to the shell that runs a ProxyCommand.
_ALIAS = re.compile(r"[\w.@:\[\]+][\w.@:\[\]+-]*")
#: The machine's name in the known hosts that are made for one login.
_KEY_ALIAS = "jupyter-tpu-attached"
#: What `ssh` says of the key that it is shown, and of one that it knows, refuses or knows in its
#: place.
_SHOWN = re.compile(r"Server host (?:key|certificate): (\S+) (SHA256:[\w+/]+)")
_KNOWN = re.compile(r"is known and matches the ")
_REFUSED = re.compile(
    r"^Host key for (?P<changed>.+) has changed and you|host key for (?P<revoked>.+) was revoked",
    re.MULTILINE,
)
_OFFENDING = re.compile(r"^Offending (?:\S+ )?key.* in (.+):\d+\s*$", re.MULTILINE)
#: What it exits with if it could not log in, and bytes that are kept of what it writes.
_SSH_FAILED_CODE, _KEPT_OUTPUT_BYTES = 255, 1 << 20
#: Adds the line on standard input to the keys that may log in.
_AUTHORIZE = "umask 077; mkdir -p ~/.ssh && { echo; cat; } >> ~/.ssh/authorized_keys"


class UserHost(Struct, frozen=True, kw_only=True):
    """How the user's `ssh` reaches a machine."""

    alias: str
    address: str
    port: int
    user: str
    proxy_command: tuple[str, ...]

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
    return UserHost(
        alias=alias,
        address=address,
        port=port,
        user=user,
        proxy_command=_proxy(options, alias),
    )


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

    Raises HOST_KEY if the user's `ssh` knows another key of it, or one that is revoked, and
    UNREACHABLE.
    """
    from .library import asyncssh
    from .opening import failure_text, host_key_algorithms

    kind, known = await _ask_openssh(host)
    try:
        async with asyncio.timeout(KEY_LIMIT):
            shown = await asyncssh.get_server_host_key(
                host.address,
                host.port,
                proxy_command=list(host.proxy_command) or None,
                server_host_key_algs=host_key_algorithms([kind] if kind else []),
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
    return ShownKey(key=key, known=fingerprint(key) in known)


async def _ask_openssh(host: UserHost) -> tuple[str, set[str]]:
    """The type of the key that it shows to the user's `ssh` ("" if it is not known), and the
    fingerprints of the keys that this accepts: it reads files and runs commands as configured.

    Raises HOST_KEY if it refuses the key as another one.
    """
    options = {
        "LogLevel": "DEBUG1",  # which key it is
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "UpdateHostKeys": "no",
        "ControlPath": "none",  # a connection that is open shows no key
        "PreferredAuthentications": "none",
        "ClearAllForwardings": "yes",
        "RemoteCommand": "none",
        "ConnectTimeout": "20",
    }
    _, _, log = await _ssh(["-T", *_words(options), "--", host.alias, "true"], limit=KEY_LIMIT)
    kind = shown = ""
    known: set[str] = set()
    for line in log.splitlines():
        if match := _SHOWN.search(line):
            kind, shown = match.groups()
        elif _KNOWN.search(line):
            known.add(shown)
    refusal = _REFUSED.search(log)
    if refusal is None:
        return kind.removesuffix("-cert-v01@openssh.com"), known
    name = refusal["changed"] or refusal["revoked"]
    why = "has another key there" if refusal["changed"] else "is revoked there"
    place = _OFFENDING.search(log)
    if place is not None and place[1].startswith("KnownHostsCommand"):
        correct = "what your KnownHostsCommand prints"
    else:
        file = f" -f {shlex.quote(place[1])}" if place is not None else ""
        correct = f"your known hosts with `ssh-keygen -R {shlex.quote(name)}{file}`"
    raise TPUError(
        f"{host.alias} shows the host key {shown}, but {name} {why} (in your known hosts).",
        Reason.HOST_KEY,
        "Someone may be intercepting the connection. If you know that the machine was "
        f"reinstalled, correct {correct}.",
    )


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
        code, out, err = await _ssh(
            ["-T", *_words(options), "--", host.alias, marked_line(_AUTHORIZE)],
            limit=LOGIN_LIMIT,
            input=f"{public_key} jupyter-tpu\n".encode(),
        )
    if code != _SSH_FAILED_CODE and OUTPUT_MARK.decode() not in out:
        raise login_shell_error(host.user, host.alias, ENDED, _last_line(err or out))
    if code:
        raise TPUError(
            f"`ssh {host.alias}` can't log in without a question: {_last_line(err)}.",
            Reason.PERMISSION,
            f"Make `ssh {host.alias}` work with a key and without a password, then try again.",
        )


def _words(options: dict[str, str]) -> list[str]:
    return [word for option in options.items() for word in ("-o", "=".join(option))]


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
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            with contextlib.suppress(ConnectionError):
                process.stdin.write(input)
                process.stdin.close()
            out, err = await asyncio.gather(_read(process.stdout), _read(process.stderr))
            await process.wait()
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


async def _read(stream: asyncio.StreamReader) -> bytes:
    """The beginning of *stream*; waits for its end."""
    kept = b""
    while data := await stream.read(65536):
        kept += data[: _KEPT_OUTPUT_BYTES - len(kept)]
    return kept


def _kill(process: asyncio.subprocess.Process) -> None:
    """Also what `ssh` has started: commands of `Match exec`, and proxies."""
    if hasattr(os, "killpg"):
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1].rstrip(".") if lines else "it said nothing"

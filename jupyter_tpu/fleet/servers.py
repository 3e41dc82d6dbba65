"""Finds the running Jupyter servers of this user.

A server's token allows to open a shell. It is sent only to a live server of this user: the info
file, its process and the listener on its port belong to this user. So a stale file does not give
the token to another user who listens on that port now.

A server with a certificate of its own (`ServerApp.certfile`) says which it is, in a file beside its
info file: no authority has to know it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import Struct

from ..errors import Reason, TPUError

#: Addresses a server may listen on that are reached through loopback.
_ANY = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "*": "127.0.0.1", "::": "[::1]"}
_UIDS = re.compile(r"^Uid:\s+(.+)$", re.MULTILINE)
_LISTENING = "0A"  # the state's number in /proc/net/tcp
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL)


class Server(Struct, frozen=True, kw_only=True):
    """A running Jupyter server."""

    url: str  # base URL, ends in "/"
    token: str  # "" if it requires none
    pid: int
    root_dir: str = ""
    file: str = ""  # Jupyter's own file about it
    socket: str = ""  # the path of its unix socket, if it has one
    password: bool = False  # asks for a password: there is no token to send
    started: float = 0.0  # seconds since the epoch
    certificate: str = ""  # that it shows, as PEM; "" if it is not known, or there is none

    def __repr__(self) -> str:
        return f"Server({self.url}, pid {self.pid})"  # never the token


def running_servers(folder: Path | None = None) -> list[Server]:
    """This user's live servers, the newest first.

    *folder*: Jupyter's runtime folder if None. Files of dead servers are left to Jupyter Server.
    """
    paths = (folder or _runtime_dir()).glob("jpserver-*.json")
    servers = [server for path in paths for server in _read(path)]
    return sorted(servers, key=lambda server: server.started, reverse=True)


def write_certificate(certfile: str, folder: Path | None = None) -> Path:
    """Called in a server: says which certificate it shows, the first of *certfile*; returns the
    file, which is to be deleted when the server ends. Raises OSError.
    """
    from ..local_files import write_atomically

    certificate = _CERTIFICATE.search(Path(certfile).read_text("ascii", "replace"))
    path = _certificate_file(folder or _runtime_dir(), os.getpid())
    write_atomically(path, certificate[0] if certificate else "")
    return path


def _certificate_file(folder: Path, pid: int) -> Path:
    return folder / f"jupyter-tpu-{pid}.pem"


def _runtime_dir() -> Path:
    from jupyter_core.paths import jupyter_runtime_dir

    return Path(jupyter_runtime_dir())


def server_at(url: str, folder: Path | None = None) -> Server:
    """The running server of this user with that URL; raises NOT_FOUND, naming those there are."""
    split_result = urlsplit(url if "//" in url else f"http://{url}")
    servers = running_servers(folder)
    for server in servers:
        here = urlsplit(server.url)
        if here.port == split_result.port and here.path.rstrip("/") in (
            split_result.path.rstrip("/"),
            split_result.path.rstrip("/").removesuffix("/lab"),
        ):
            return server
    there = ", ".join(server.url for server in servers) or "none"
    raise TPUError(
        f"No running Jupyter server of yours is at {split_result.scheme}://{split_result.netloc}{split_result.path}.",
        Reason.NOT_FOUND,
        f"Running: {there}.",
    )


def _read(path: Path) -> Iterator[Server]:
    try:
        if not _mine(path.stat().st_uid):
            return
        started = path.stat().st_mtime
        info = json.loads(path.read_text(encoding="utf-8"))
        pid, port, secure = int(info["pid"]), int(info["port"]), bool(info["secure"])
        base, token, socket = str(info["base_url"]), str(info["token"]), str(info.get("sock") or "")
        host = str(info["hostname"])
    except (OSError, ValueError, KeyError, TypeError):
        return  # being written, gone, or not a server's
    if not _process_is_mine(pid):
        return
    if socket:
        if not _socket_is_mine(Path(socket)):
            return
    elif not _port_is_mine(port):
        return
    host = _ANY.get(host) or (f"[{host}]" if ":" in host else host)
    certificate = ""
    if secure:
        with contextlib.suppress(OSError):
            certificate = _certificate_file(path.parent, pid).read_text("ascii")
    yield Server(
        url=f"http{'s' if secure else ''}://{host}:{port}{base.rstrip('/')}/",
        token=token,
        pid=pid,
        root_dir=str(info.get("root_dir", "")),
        file=str(path),
        socket=socket,
        password=bool(info.get("password")) and not token,
        started=started,
        certificate=certificate,
    )


def _mine(uid: int) -> bool:
    return uid == os.geteuid()


def _process_is_mine(pid: int) -> bool:
    """Whether the process lives and is this user's."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, PermissionError, OverflowError):
        return False
    try:
        # Not the owner of /proc/PID, which is root for a process that changed its user.
        status = Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        # No /proc here: the signal was allowed, which says nothing if we are root.
        return os.geteuid() != 0 or not Path("/proc/self").exists()
    return all(_mine(int(uid)) for uid in _UIDS.findall(status)[0].split())


def _socket_is_mine(path: Path) -> bool:
    try:
        return _mine(path.stat().st_uid)
    except OSError:
        return False


def _port_is_mine(port: int) -> bool:
    """Whether only this user listens on *port*; True where the system does not say."""
    owners = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:
            if table.endswith("tcp"):
                return True  # not Linux
            continue  # no IPv6
        for line in lines:
            _, local, _, state, _, _, _, uid, *_ = line.split()
            if state == _LISTENING and int(local.rpartition(":")[2], 16) == port:
                owners.add(int(uid))
    return bool(owners) and all(map(_mine, owners))

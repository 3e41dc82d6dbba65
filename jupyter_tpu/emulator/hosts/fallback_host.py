"""The fallback: one host without namespaces, asyncssh's server over a folder of this machine.

Sessions run as the emulator's own user, with a home below the host's folder and the host's
variables. SFTP stays inside the host's folder. `SKIPPED` lists what a TPU VM has and this
host lacks.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import InvalidInput, Reason, TPUError
from ...paths import private_dir
from . import machine
from .etc import ON_HOST, plugin_path
from .namespace_host import write_keys
from .reaper import marked
from .session import LoginSession
from .spec import USER_NAME, HostSpec

if TYPE_CHECKING:
    import asyncssh

SKIPPED: tuple[str, ...] = (
    "Only one host can run at a time, so types with several hosts can't be created.",
    "The host shares this machine's host name, user, processes, files and accelerators.",
    "There is no sudo and no apt on the host.",
    "Startup scripts are not run.",
)
_ON_LINUX = sys.platform == "linux"
if not _ON_LINUX:
    SKIPPED += ("Daemons that a session leaves behind outlive the host.",)

_MARK = "JUPYTER_TPU_EMULATED_HOST"
_END_SECONDS = 15.0


class FallbackHost:
    """The one host; made by ``Runtime.start``, which calls `boot` once."""

    def __init__(self, spec: HostSpec, port: int, cache: Path) -> None:
        self.port = port
        self.host_keys: dict[str, str] = {}
        self.init_pid = os.getpid()
        self._spec = spec
        self._cache = cache
        self._server: asyncssh.SSHAcceptor | None = None
        self._connections: set[asyncssh.SSHServerConnection] = set()
        self._groups: set[int] = set()  # of the sessions that run
        self._reaper: asyncio.subprocess.Process | None = None
        self._ended = asyncio.Event()
        self.mark = f"{_MARK}={spec.folder}"

    @property
    def ended(self) -> bool:
        return self._ended.is_set()

    async def boot(self) -> None:
        """Listens. Raises TPUError (UNAVAILABLE) if it can't, or for a host that needs more."""
        import asyncssh

        spec = self._spec
        if spec.without_python or spec.without_python_tools or spec.disk_limit_mb is not None:
            raise TPUError(
                "A host without Python, or with a disk limit, needs Linux namespaces.",
                Reason.UNAVAILABLE,
            )
        for name in ("home", "tmp", "keys", "bin"):
            private_dir(spec.folder / name)
        self._link_pythons()
        key = _host_key(spec.folder / "host_key")
        kind, value = key.export_public_key().decode().split()[:2]
        self.host_keys = {kind: value}
        if _ON_LINUX:
            reaper = Path(__file__).with_name("reaper.py")
            self._reaper = await asyncio.create_subprocess_exec(
                *(sys.executable, "-S", "-E", str(reaper), self.mark),
                stdin=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        try:
            self._server = await asyncssh.listen(
                spec.address,
                self.port,
                server_factory=self._connection,
                server_host_keys=[key],
                process_factory=self._session,
                sftp_factory=self._sftp,
                allow_scp=True,
                encoding=None,
                line_editor=False,
            )
        except OSError as error:
            await self.stop()
            raise TPUError(
                f"The emulated host can't listen on {spec.address}: {error.strerror}.",
                Reason.UNAVAILABLE,
            ) from None

    def _link_pythons(self) -> None:
        for name, path in machine.pythons().commands.items():
            link = self._spec.folder / "bin" / name
            link.unlink(missing_ok=True)
            link.symlink_to(path)

    # ---- what asyncssh calls --------------------------------------------------------------------

    def _connection(self) -> asyncssh.SSHServer:
        import asyncssh

        host = self

        class Connection(asyncssh.SSHServer):
            def connection_made(self, connection: asyncssh.SSHServerConnection) -> None:
                self._connection = connection
                host._connections.add(connection)

            def connection_lost(self, error: Exception | None) -> None:
                host._connections.discard(self._connection)

            def begin_auth(self, username: str) -> bool:
                with contextlib.suppress(ValueError):  # no key at all is a ValueError too
                    self._connection.set_authorized_keys(host._authorized(username))
                return True

            def connection_requested(self, *where: Any) -> bool:
                return True

            def server_requested(self, *where: Any) -> bool:
                return True

            def unix_connection_requested(self, path: str) -> bool:
                return True

            def unix_server_requested(self, path: str) -> bool:
                return True

        return Connection()

    def _authorized(self, user: str) -> asyncssh.SSHAuthorizedKeys:
        import asyncssh

        if not USER_NAME.fullmatch(user):
            raise ValueError(user)
        text = ""
        for path in (self._spec.folder / "keys" / user, self._home(user) / ".ssh/authorized_keys"):
            if path.is_file():
                text += path.read_text()
        return asyncssh.import_authorized_keys(text)

    def _home(self, user: str) -> Path:
        return self._spec.folder / "home" / user

    def variables(self, user: str) -> dict[str, str]:
        """All variables of a session of *user*."""
        folder = self._spec.folder
        kept = {name: os.environ[name] for name in ("LANG", "LC_ALL") if name in os.environ}
        return {
            **kept,
            "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "HOME": str(self._home(user)),
            "USER": user,
            "LOGNAME": user,
            "SHELL": _shell(),
            "TMPDIR": str(folder / "tmp"),
            **self._spec.environment,
            **plugin_path(str(ON_HOST)),
            "UV_CACHE_DIR": str(self._cache),
            "UV_LINK_MODE": "hardlink",  # one file system, no mounts between
            _MARK: str(folder),
        }

    async def _session(self, process: asyncssh.SSHServerProcess[bytes]) -> None:
        """Runs one command or shell, and reports its exit status."""
        user = process.get_extra_info("username")
        environment = self.variables(user)
        argv = [_shell(), "-c", process.command] if process.command else [_shell(), "-l"]
        terminal = process.get_terminal_type()
        if terminal is not None:
            environment["TERM"] = terminal
        session = LoginSession(process, argv, environment, self._home(user), terminal is not None)
        code = await session.run(self._groups)
        if code < 0:
            process.exit_with_signal(signal.Signals(-code).name.removeprefix("SIG"))
        else:
            process.exit(code)

    def _sftp(self, channel: asyncssh.SSHServerChannel) -> asyncssh.SFTPServer:
        import asyncssh

        root = os.path.realpath(self._spec.folder)
        home = os.path.realpath(self._home(channel.get_extra_info("username")))
        allowed = (os.path.join(root, "home"), os.path.join(root, "tmp"))

        class HostFilesServer(asyncssh.SFTPServer):
            """Paths are the machine's, as the sessions see them; others than the host's refused."""

            def map_path(self, path: bytes) -> bytes:
                inner = os.path.join(home, os.fsdecode(path))
                parent, name = os.path.split(os.path.normpath(inner))
                real = os.path.join(os.path.realpath(parent), name)
                if not all(
                    _is_inside(candidate, allowed) for candidate in (os.path.realpath(inner), real)
                ):
                    raise asyncssh.SFTPPermissionDenied("This path is not on the host.")
                return os.fsencode(real)

            def exit(self) -> None:
                self.channel.exit(0)  # without a status, scp says that it failed

        return HostFilesServer(channel)

    # ---- what the emulator calls ----------------------------------------------------------------

    async def set_users(self, keys: Mapping[str, Sequence[str]]) -> None:
        """See `RunningHost.set_users`; all users are the emulator's own, with a home each."""
        for user in keys:
            if not USER_NAME.fullmatch(user):
                raise InvalidInput(f"{user!r} can't be a user of a TPU VM.")
            private_dir(self._home(user))
        await asyncio.to_thread(write_keys, self._spec.folder / "keys", keys)

    async def processes(self) -> list[dict]:
        """What the host's sessions have started; on Linux only."""
        return await asyncio.to_thread(_described, self.mark) if _ON_LINUX else []

    async def cut_links(self) -> None:
        """See `RunningHost.cut_links`."""
        for connection in list(self._connections):
            connection.abort()

    async def wait_ended(self) -> None:
        """Returns when the host has been stopped."""
        await self._ended.wait()

    async def stop(self) -> None:
        """Ends connections, sessions and, on Linux, what they left behind."""
        self._ended.set()
        if self._server is not None:
            self._server.close()
            await self.cut_links()
            async with asyncio.timeout(_END_SECONDS):
                await self._server.wait_closed()
        for group in list(self._groups):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        if self._reaper is not None and self._reaper.returncode is None:
            assert self._reaper.stdin is not None
            self._reaper.stdin.close()
            async with asyncio.timeout(_END_SECONDS):
                failed = await self._reaper.wait()
            if failed:
                raise TPUError(
                    f"Processes of the emulated host {self._spec.hostname} do not end.",
                    Reason.TIMEOUT,
                )


def _is_inside(path: str, folders: Iterable[str]) -> bool:
    """Whether *path* is one of *folders*, or in it."""
    return any(path == folder or path.startswith(folder + os.sep) for folder in folders)


def _shell() -> str:
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


def _host_key(path: Path) -> asyncssh.SSHKey:
    """The key in *path*, made if it is missing."""
    import asyncssh

    if not path.exists():
        key = asyncssh.generate_private_key("ssh-ed25519")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(key.export_private_key())
    return asyncssh.read_private_key(path)


def _described(mark: str) -> list[dict]:
    described = []
    for pid in marked(mark):
        with contextlib.suppress(OSError):  # it ended meanwhile
            cmdline = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            described.append(
                {"pid": pid, "name": name, "cmdline": cmdline.rstrip("\0").split("\0")}
            )
    return described

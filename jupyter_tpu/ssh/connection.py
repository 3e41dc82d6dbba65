"""One open SSH connection to one host, and what can be done over it; `opening` makes them.

Every failure is a TPUError: UNREACHABLE within the keepalive's bound, never a hang.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from ..errors import ConnectionLost, Reason, TPUError
from .address import HostAddress
from .asyncssh_internals import drop, has_channels, unanswered_keepalives
from .command import (
    MAX_OUTPUT,
    CompletedCommand,
    NotListening,
    TooMuchOutput,
    command_error,
    command_line,
    exchange,
    relative_to_home,
)
from .login_shell import CommandStart, marked_line
from .stream import CommandStream
from .transport import WINDOW_BYTES

if TYPE_CHECKING:
    from asyncssh import (
        ChannelOpenError,
        SSHClientConnection,
        SSHClientProcess,
        SSHTCPChannel,
    )

    from .carried_sockets import CarriedSockets


T = TypeVar("T")

#: sshd allows 10 sessions per connection (MaxSessions); forwarded channels don't count.
_MOST_SESSIONS = 8
#: Seconds until a session is asked for again that sshd refused, and for how long.
_SESSION_RETRY, _SESSION_LIMIT = 0.1, 5.0

#: Opening a channel takes a round trip; more than this and something is wrong.
CHANNEL_LIMIT = 20.0  # seconds

#: How long a command may take to end after SIGTERM.
_GRACE_SECONDS = 2.0  # seconds


class Keepalive(Struct, frozen=True):
    """How soon a silent host is noticed: after ``interval * (count + 1)`` seconds."""

    interval: float = 5.0
    count: int = 2

    @property
    def bound(self) -> float:
        """Seconds of silence after which the connection counts as lost."""
        return self.interval * (self.count + 1)


class SSHConnection:
    """An open connection. Made by :func:`opening.connect`; closed with :meth:`close`."""

    def __init__(
        self,
        ssh: SSHClientConnection,
        host: HostAddress,
        stack: AsyncExitStack,
        lost: asyncio.Future[None],
        interval: float,
    ) -> None:
        self.host = host
        self._interval = interval
        self._ssh = ssh
        self._stack = stack
        self._lost = lost
        self._sessions = asyncio.Semaphore(_MOST_SESSIONS)
        #: Whether sshd forwards to Unix sockets; None: not known yet.
        self._forwards_unix: bool | None = None
        #: Whether a command was run, or was tried to.
        self.has_run_command = False

    # ---- its life ------------------------------------------------------------------------

    @property
    def silent(self) -> bool:
        """Whether a keepalive has gone unanswered for a whole interval."""
        return unanswered_keepalives(self._ssh) >= 2

    def keep_alive(self, interval: float) -> None:
        """From now on a keepalive is sent after *interval* seconds in which nothing came."""
        if interval != self._interval and not self.closed:
            self._interval = interval
            self._ssh.set_keepalive(interval)

    @property
    def closed(self) -> bool:
        return self._lost.done()

    @property
    def in_use(self) -> bool:
        """Whether a channel is open, or being opened."""
        return has_channels(self._ssh)

    async def wait_lost(self) -> None:
        """Returns when the connection has ended, for any reason."""
        await asyncio.shield(self._lost)

    async def alive(self, limit: float) -> bool:
        """Whether the host answers within *limit* seconds; asks now, without the keepalive."""
        from .library import asyncssh

        try:
            # Nothing can listen there, so the host answers with an error after one round trip.
            async with asyncio.timeout(limit):
                _, writer = await self._ssh.open_unix_connection("/dev/null/nothing", encoding=None)
        except asyncssh.ChannelOpenError:
            return not self.closed
        except (TimeoutError, asyncssh.Error, OSError):
            return False
        writer.close()
        return True

    def abort(self) -> None:
        """Drops the connection without telling the host; what runs over it fails now."""
        # asyncssh's own `abort` would end channels without an error, as if the host had done so.
        drop(self._ssh)

    async def close(self) -> None:
        """Closes the connection and its jump hosts; commands that run over it fail."""
        self._ssh.close()
        with contextlib.suppress(asyncio.TimeoutError):
            async with asyncio.timeout(2.0):
                await self._ssh.wait_closed()
        self._ssh.abort()
        with contextlib.suppress(asyncio.TimeoutError):
            async with asyncio.timeout(2.0):
                await self._stack.aclose()

    # ---- what can be done over it ------------------------------------------------------------

    async def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        timeout: float | None = None,
        on_line: Callable[[str], None] | None = None,
        max_output: int = MAX_OUTPUT,
        check: bool = True,
    ) -> CompletedCommand:
        """Runs a command on the host and waits for its end.

        Parameters
        ----------
        argv: the command and its arguments; they are quoted, so no shell interprets them.
        input: its standard input; use it for secrets.
        env: variables added to the host's; visible in its list of processes.
        cwd: the folder it runs in, "~/…" for the home folder, which is the default.
        timeout: seconds; then the command is stopped (TIMEOUT).
        on_line: called with each line of its output and errors as it comes, without line end. The
            result then has only the end of them.
        max_output: bytes of its output, and of its errors, after which it is ended (INTERNAL); with
            *on_line*, of one line.
        check: whether a status other than 0 raises
            :class:`~jupyter_tpu.ssh.command.CommandFailed` (DISK_FULL if that was the cause).

        Raises LOGIN_SHELL if the host's login shell does not run it, and UNREACHABLE if the
        connection is lost meanwhile; it is then unknown whether the command went on.
        """
        line = marked_line(command_line(argv, env, cwd))
        try:
            async with asyncio.timeout(timeout):
                completed = await self._session(line, input, on_line, max_output)
        except TooMuchOutput:
            raise TPUError(
                f"{argv[0].rpartition('/')[2]} wrote more than {max_output / (1 << 20):.3g} MB"
                f"{' without a line end' if on_line else ''} on {self.host.label} and was stopped.",
                Reason.INTERNAL,
            ) from None
        except TimeoutError:
            raise TPUError(
                f"{argv[0].rpartition('/')[2]} did not finish within {timeout:g} s on "
                f"{self.host.label} and was stopped.",
                Reason.TIMEOUT,
            ) from None
        if check and completed.returncode != 0:
            raise command_error(argv, completed, self.host.label)
        return completed

    @contextlib.asynccontextmanager
    async def stream(self, argv: Sequence[str]) -> AsyncIterator[CommandStream]:
        """Runs a command whose input and output are streams; leaving the block closes both.

        Raises LOGIN_SHELL if the host's login shell does not run it, UNREACHABLE if the connection
        is lost.
        """

        async with self._sessions:
            stream = await self._start_stream(argv)
            try:
                yield stream
            finally:
                stream.close()

    async def _start_stream(
        self, argv: Sequence[str], ended: Callable[[], None] = lambda: None
    ) -> CommandStream:
        """A session of a command, which has begun. ended: called when it has ended, if it began."""
        from .library import asyncssh

        start = CommandStart(self.host)
        stream = CommandStream(self._lost_error, start, ended)
        self.has_run_command = True
        try:
            async with asyncio.timeout(CHANNEL_LIMIT):
                await self._open_session(
                    self._ssh.create_session,
                    stream.session,
                    marked_line(command_line(argv)),
                    encoding=None,
                    window=WINDOW_BYTES,
                )
        except (TimeoutError, asyncssh.Error, OSError) as error:
            raise self._lost_error() from error
        try:
            if not await start.wait():
                raise self._lost_error() if stream.broken or self.closed else start.failure()
        except BaseException:
            stream.close()
            raise
        return stream

    async def open_unix(self, path: str) -> tuple[Any, Any]:
        """A reader and a writer of the Unix socket at *path* (absolute) on the host.

        sshd may forbid to forward to it, and then says that it does not exist. So a command on the
        host looks, and carries the bytes.

        Raises NOT_FOUND (`NotListening`, also a ConnectionRefusedError) if nothing listens, and as
        `CarriedSockets.open`.
        """
        from .library import asyncssh

        if self._forwards_unix is not False:
            try:
                async with asyncio.timeout(CHANNEL_LIMIT):
                    streams = await self._ssh.open_unix_connection(
                        path, encoding=None, window=WINDOW_BYTES
                    )
                self._forwards_unix = True
                return streams
            except asyncssh.ChannelOpenError as error:
                if self.closed:
                    raise self._lost_error() from error
                if self._forwards_unix:
                    raise self._not_listening(path) from error
            except (TimeoutError, asyncssh.Error, OSError) as error:
                raise self._lost_error() from error
        carried = await self._carried_sockets.open(path)
        if carried is None:
            raise self._not_listening(path)
        self._forwards_unix = False
        return carried

    @functools.cached_property
    def _carried_sockets(self) -> CarriedSockets:
        from .carried_sockets import CarriedSockets  # few hosts need it

        return CarriedSockets(self._start_stream, self._sessions, self.host.label)

    def _not_listening(self, path: str) -> NotListening:
        return NotListening(
            f"No server is listening at {path} on {self.host.label}.", Reason.NOT_FOUND
        )

    async def open_port(
        self, factory: Callable[[], Any], port: int, *, window: int = WINDOW_BYTES
    ) -> SSHTCPChannel[bytes]:
        """A channel to a TCP port on the host; *factory* makes its asyncssh session.

        window: bytes that may be in flight to this side.

        Raises `NotListening` (NOT_FOUND), PERMISSION if the host's sshd forbids forwarding,
        UNREACHABLE if the connection is lost.
        """

        from .library import asyncssh

        refusal: asyncssh.ChannelOpenError | None = None
        try:
            for address in self.host.loopbacks:  # the host's own addresses
                try:
                    async with asyncio.timeout(CHANNEL_LIMIT):
                        channel, _ = await self._ssh.create_connection(
                            factory, address, port, "127.0.0.1", 0, window=window
                        )
                        return channel
                except asyncssh.ChannelOpenError as error:
                    if self.closed:
                        raise self._lost_error() from error
                    refusal = refusal or error
                    if error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
                        break
        except (TimeoutError, asyncssh.Error, OSError) as error:
            raise self._lost_error() from error
        assert refusal is not None
        raise _port_error(refusal, port, self.host.label) from refusal

    async def put(self, data: bytes, path: str, mode: int = 0o600) -> None:
        """Writes a file on the host in one step; its folder is created (0700) if missing.

        Raises DISK_FULL, CommandFailed for a path that can't be written, or UNREACHABLE.
        """
        # It takes one session and no SFTP server. The size is checked because `cat` can't tell a
        # broken connection from the end of the data.
        script = (
            'umask 077; mkdir -p "$(dirname "$1")" && t=$(mktemp "$1.XXXXXXXXXX") || exit 1\n'
            'cat >"$t" && [ "$(wc -c <"$t")" -eq "$3" ] && chmod "$2" "$t" && mv -f "$t" "$1" '
            '|| { rm -f "$t"; exit 1; }\n'
        )
        await self.run(
            ["sh", "-c", script, "put", relative_to_home(path), f"{mode:o}", str(len(data))],
            input=data,
            timeout=60.0 + len(data) / 50_000,
        )

    # ---- a session -------------------------------------------------------------------------

    async def _session(
        self, line: str, input: bytes, on_line: Callable[[str], None] | None, max_output: int
    ) -> CompletedCommand:
        from .library import asyncssh

        start = CommandStart(self.host)
        async with self._sessions:
            self.has_run_command = True
            try:
                async with asyncio.timeout(CHANNEL_LIMIT):
                    process: SSHClientProcess[bytes] = await self._open_session(
                        self._ssh.create_process, line, encoding=None
                    )
            except (TimeoutError, asyncssh.Error, OSError) as error:
                raise self._lost_error() from error
            try:
                out, err = await exchange(process, input, start, on_line, max_output)
                await process.wait_closed()
            except (asyncssh.Error, OSError) as error:
                raise self._lost_error() from error
            except BaseException:
                await asyncio.shield(self._end(process))
                raise
        if process.returncode is None:
            raise self._lost_error()
        if not start.begun:
            raise start.failure()
        return CompletedCommand(returncode=process.returncode, stdout=out, stderr=err)

    async def _open_session(
        self, open: Callable[..., Awaitable[T]], *arguments: Any, **options: Any
    ) -> T:
        """What *open* returns. sshd refuses a session if there are too many, and for a moment it
        still counts one that has ended: then it is asked again.
        """
        from .library import asyncssh

        end = asyncio.get_running_loop().time() + _SESSION_LIMIT
        while True:
            try:
                return await open(*arguments, **options)
            except asyncssh.ChannelOpenError:
                if self.closed or asyncio.get_running_loop().time() > end:
                    raise
                await asyncio.sleep(_SESSION_RETRY)

    async def _end(self, process: SSHClientProcess[bytes]) -> None:
        """Ends the command on the host: closing only its session would let it run on."""
        from .library import asyncssh

        with contextlib.suppress(asyncssh.Error, OSError):
            process.terminate()
            with contextlib.suppress(asyncio.TimeoutError):
                async with asyncio.timeout(_GRACE_SECONDS):
                    await process.wait_closed()
            if process.returncode is None and not self.closed:
                process.kill()
        process.close()

    def _lost_error(self) -> TPUError:
        return ConnectionLost(self.host.label, "" if self.closed else "no answer")


def _port_error(error: ChannelOpenError, port: int, host: str) -> TPUError:
    """The error for a channel that the host's sshd did not open to *port*."""
    from asyncssh import OPEN_ADMINISTRATIVELY_PROHIBITED

    if error.code == OPEN_ADMINISTRATIVELY_PROHIBITED:
        return TPUError(
            f"{host} does not forward ports.",
            Reason.PERMISSION,
            "Set `AllowTcpForwarding yes` and `DisableForwarding no` in its sshd_config. In "
            "~/.ssh/authorized_keys, the key must not have `restrict` or `no-port-forwarding`.",
        )
    return NotListening(
        f"No server is listening on port {port} of {host}.",
        Reason.NOT_FOUND,
        "Start the server there, or check which port it uses.",
    )

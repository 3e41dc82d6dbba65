"""One command or shell of the host without namespaces: a process, and its bytes to and from SSH."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import struct
import sys
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncssh

    #: The child, where its input goes, and where its outputs come from and go to.
    Started = tuple[
        asyncio.subprocess.Process,
        asyncio.StreamWriter,
        list[tuple[asyncio.StreamReader, asyncssh.SSHWriter[bytes]]],
    ]

_CHUNK_BYTES = 65536
# A terminal becomes the session's own in the child itself.
_ON_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.argv[1], sys.argv[1:])"
)


class LoginSession:
    """Runs *argv* for the SSH session *process*, on a terminal of its own or on pipes."""

    def __init__(
        self,
        process: asyncssh.SSHServerProcess[bytes],
        argv: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        terminal: bool,
    ) -> None:
        self._process = process
        self._argv = list(argv)
        self._environment = environment
        self._folder = folder
        self._terminal = terminal
        self._main: int | None = None  # our end of the terminal

    async def run(self, groups: set[int]) -> int:
        """Returns the exit code, or minus the signal. *groups* has the process group meanwhile."""
        child, stdin, outputs = await (self._on_terminal() if self._terminal else self._on_pipes())
        groups.add(child.pid)
        feeding = asyncio.create_task(self._feed(stdin, child.pid))
        pumps = [asyncio.create_task(_pump(source, target)) for source, target in outputs]
        try:
            await asyncio.gather(*pumps)  # like sshd: the end is the end of the output
            return await child.wait()
        finally:
            groups.discard(child.pid)
            for task in (feeding, *pumps):
                task.cancel()
            await asyncio.gather(feeding, *pumps, return_exceptions=True)
            stdin.close()

    async def _on_pipes(self) -> Started:
        child = await asyncio.create_subprocess_exec(
            *self._argv,
            env=self._environment,
            cwd=self._folder,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stderr is not None
        process = self._process
        outputs = [(child.stdout, process.stdout), (child.stderr, process.stderr)]
        return child, child.stdin, outputs

    async def _on_terminal(self) -> Started:
        main, side = os.openpty()
        self._main = main
        self._resize(self._process.get_terminal_size())
        child = await asyncio.create_subprocess_exec(
            *(sys.executable, "-S", "-E", "-c", _ON_TERMINAL, *self._argv),
            env=self._environment,
            cwd=self._folder,
            stdin=side,
            stdout=side,
            stderr=side,
            start_new_session=True,
        )
        os.close(side)
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(
            lambda: _TerminalProtocol(reader), os.fdopen(os.dup(main), "rb", 0)
        )
        transport, protocol = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, os.fdopen(main, "wb", 0)
        )
        writer = asyncio.StreamWriter(transport, protocol, None, loop)
        return child, writer, [(reader, self._process.stdout)]

    async def _feed(self, stdin: asyncio.StreamWriter, group: int) -> None:
        """Passes on what the client sends: bytes, the size of its window, signals."""
        import asyncssh

        while True:
            try:
                data = await self._process.stdin.read(_CHUNK_BYTES)
            except asyncssh.TerminalSizeChanged as change:
                self._resize(change.term_size)
                continue
            except (asyncssh.SignalReceived, asyncssh.BreakReceived) as received:
                name = getattr(received, "signal", "INT")
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(group, getattr(signal, f"SIG{name}", signal.SIGTERM))
                continue
            except asyncssh.Error:  # the connection is gone
                data = b""
            if not data:
                break
            try:
                stdin.write(data)
                await stdin.drain()
            except (BrokenPipeError, ConnectionResetError):
                return  # it does not read any more
        if self._terminal:
            await self._process.channel.wait_closed()  # an end of input hangs nothing up
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGHUP)
        else:
            stdin.close()

    def _resize(self, size: tuple[int, int, int, int]) -> None:
        if self._main is not None:
            columns, rows, width, height = size
            packed = struct.pack("HHHH", rows, columns, width, height)
            fcntl.ioctl(self._main, termios.TIOCSWINSZ, packed)


class _TerminalProtocol(asyncio.StreamReaderProtocol):
    """Takes the error of a terminal whose last program has ended as the end of its output.

    A reader that gets the error no longer returns what it had received before.
    """

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(None)


async def _pump(source: asyncio.StreamReader, target: asyncssh.SSHWriter[bytes]) -> None:
    """Copies until the end of *source*, no faster than the client takes it."""
    with contextlib.suppress(BrokenPipeError, ConnectionError):  # the client has gone
        while data := await source.read(_CHUNK_BYTES):
            target.write(data)
            await target.drain()

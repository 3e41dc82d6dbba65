"""The conductor's connection to the process next to one host's kernel: over SSH, or a pipe on the
conductor's own host.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shlex
import sys
import zipfile
from typing import Any, Dict, List, Optional, Protocol

from ..protocol.events import KEEPER
from ..protocol.frames import ProtocolError
from ..protocol.login_shell import GREETING_LIMIT, OUTPUT_MARK
from ..protocol.timeouts import cancel_all
from . import wire
from .host_names import host_ranges

#: As `links.pod_ssh` configures it for the hosts of a pod.
_SSH = (
    "ssh", "-T", "-o", "BatchMode=yes", "-o", "RemoteCommand=none", "-o", "ControlMaster=no",
    "-o", "ControlPath=none", "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=6",
)  # fmt: skip
#: The exit code of a host that does not have the agent.
_NO_AGENT = 47
#: Unpacks the agent there.
_UNPACK = (
    "import io,os,sys,zipfile;os.umask(0o077);"
    "zipfile.ZipFile(io.BytesIO(sys.stdin.buffer.read())).extractall(sys.argv[1])"
)
#: Bytes of what SSH and the login shell write, of which the last line is told.
_ERROR_BYTES = 8 << 10


class HostListener(Protocol):
    """Who hears of a host."""

    def heard(self, host: int, channel: int, parts: List[bytes]) -> None:
        """A message of its kernel."""

    def noted(self, host: int, note: Dict[str, Any]) -> None:
        """What the process next to the kernel says."""

    def gone(self, host: int, reason: str) -> None:
        """Once: why it can't be reached (any more)."""


class ConnectionLimits:
    """Limits of the connections to all hosts together.

    Attributes
    ----------
    connecting: how many are made at once, since each takes time of one of this host's cores.
    large: see `wire.read`.
    """

    def __init__(self) -> None:
        self.connecting = asyncio.Semaphore(max(16, 4 * (os.cpu_count() or 1)))
        self.large = asyncio.Lock()


class HostConnection:
    """One host's kernel, as the conductor sees it.

    Parameters
    ----------
    host: its number. Host 0 is this one.
    spec: for `member.run_member`.
    sources: the agent's folder here.
    listener: hears of it; it can be replaced.
    limits: of the connections to all hosts together.
    """

    def __init__(
        self,
        host: int,
        spec: Dict[str, Any],
        sources: str,
        listener: HostListener,
        limits: ConnectionLimits,
    ) -> None:
        self.host = host
        self._limits = limits
        self._name = host_ranges([host])
        self.listener = listener
        self._spec = spec
        self._sources = sources
        self._process: Optional[asyncio.subprocess.Process] = None
        self._errors = bytearray()
        self._reported = False  # its end
        self._task = asyncio.ensure_future(self._run())

    def send(self, channel: int, parts: List[bytes]) -> None:
        """Sends the kernel a message; none if it is gone."""
        self._write(wire.encode(channel, parts))

    def signal(self, number: int) -> None:
        """Sends the kernel's process group a signal."""
        self._write(wire.encode_note(do="signal", signal=number))

    def ask_places(self) -> None:
        """Asks what the host's chips run; the answer is a note."""
        self._write(wire.encode_note(do="places"))

    def assign(self, spec: Dict[str, Any]) -> None:
        """Makes a warm kernel the one of *spec*."""
        self._write(wire.encode_note(do="assign", spec=spec))

    def end(self) -> None:
        """Shuts the kernel down."""
        self._write(wire.encode_note(do="end"))

    def _write(self, data: bytes) -> None:
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(OSError, RuntimeError):
                self._process.stdin.write(data)

    async def wait_closed(self, seconds: float) -> None:
        """Returns when the kernel is gone, after so many seconds at most; then it is cut off."""
        await asyncio.wait([self._task], timeout=seconds)
        await cancel_all([self._task])
        if self._process is not None and self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()

    # ---- its life

    async def _run(self) -> None:
        try:
            code = await self._serve()
            if code == _NO_AGENT and self.host:
                await self._install()
                code = await self._serve()
            self._report(self._reason(code))
        except (OSError, ValueError, ProtocolError) as error:
            self._report("%s: %s" % (self._name.capitalize(), error))

    async def _serve(self) -> int:
        """Serves one connection until its end; returns the exit code of its process."""
        self._errors.clear()
        async with contextlib.AsyncExitStack() as turn:
            await turn.enter_async_context(self._limits.connecting)
            process = self._process = await self._start(self._command())
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write(json.dumps(self._spec).encode() + b"\n")
            errors = asyncio.ensure_future(self._read_errors(process))
            try:
                connected = await _skip_greeting(process.stdout)
                await turn.aclose()  # now it is the turn of another host
                if connected:
                    with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                        while True:
                            self._received(*await wire.read(process.stdout, self._limits.large))
                return await process.wait()
            finally:
                await asyncio.wait([errors], timeout=0.5)
                errors.cancel()
                if process.returncode is None:
                    with contextlib.suppress(ProcessLookupError):
                        process.kill()

    async def _start(self, command: List[str]) -> "asyncio.subprocess.Process":
        # In a session of its own: what pauses or interrupts the conductor must not reach it.
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=4 << 20,
            start_new_session=True,
        )

    def _command(self) -> List[str]:
        if self.host == 0:
            return [sys.executable, self._sources, "pod-member"]
        folder, python = self._folder(), shlex.quote(self._spec["python"])
        line = "test -d %s || exit %d; exec %s %s pod-member" % (folder, _NO_AGENT, python, folder)
        return [*_SSH, self._spec["alias"], line]

    def _folder(self) -> str:
        """The agent's folder on another host, from the home folder, where a login begins."""
        return ".jupyter-tpu/agent/%s" % shlex.quote(os.path.basename(self._sources))

    async def _install(self) -> None:
        """Copies the agent to the host. Raises OSError."""
        import io

        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            for top, _, names in os.walk(self._sources):
                for name in names:
                    if not name.endswith(".pyc"):
                        path = os.path.join(top, name)
                        archive.write(path, os.path.relpath(path, self._sources))
        line = "exec %s -c %s %s" % (
            shlex.quote(self._spec["python"]),
            shlex.quote(_UNPACK),
            self._folder(),
        )
        process = await self._start([*_SSH, self._spec["alias"], line])
        _, errors = await process.communicate(packed.getvalue())
        if process.returncode:
            raise OSError("the agent could not be copied there: %s" % _last_line(errors))

    async def _read_errors(self, process: "asyncio.subprocess.Process") -> None:
        assert process.stderr is not None
        while True:
            data = await process.stderr.read(4096)
            if not data:
                return
            self._errors += data
            del self._errors[:-_ERROR_BYTES]

    def _received(self, channel: int, parts: List[bytes]) -> None:
        if channel != KEEPER:
            self.listener.heard(self.host, channel, parts)
            return
        note = wire.decode_note(parts)
        if note.get("event") == "problem":
            self._report("%s: %s" % (self._name.capitalize(), str(note.get("message"))[:2000]))
        elif note.get("event") == "exited":
            cause = str(note.get("cause"))[:2000].replace(
                "The kernel", "The kernel of %s" % self._name, 1
            )
            self.listener.noted(self.host, {**note, "cause": cause})
            self._report(cause)
        else:
            self.listener.noted(self.host, note)

    def _reason(self, code: int) -> str:
        said = _last_line(bytes(self._errors))
        if code == 255 or self.host == 0:
            return "The connection to %s has ended%s" % (self._name, _after(said))
        if code == 127 or code == 126:
            return "%s lacks the environment%s" % (self._name.capitalize(), _after(said))
        return "The process next to the kernel of %s has ended with code %d%s" % (
            self._name,
            code,
            _after(said),
        )

    def _report(self, reason: str) -> None:
        if not self._reported:
            self._reported = True
            self.listener.gone(self.host, reason)


def _after(said: str) -> str:
    return ": %s" % said.rstrip(".") + "." if said else "."


def _last_line(data: bytes) -> str:
    lines = data.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:500] if lines else ""


async def _skip_greeting(reader: asyncio.StreamReader) -> bool:
    """Reads what a login shell writes, up to the mark; False if there is none."""
    seen = bytearray()
    while len(seen) < GREETING_LIMIT and not seen.endswith(OUTPUT_MARK):
        byte = await reader.read(1)
        if not byte:
            return False
        seen += byte
    return seen.endswith(OUTPUT_MARK)

"""The process next to one host's kernel of a pod kernel: starts it, and carries its messages.

Its standard input says what to start, and it ends when that is closed. So if the conductor or the
connection to it is lost, the kernel ends, and the host's chips are free. Output that the conductor
does not read yet is limited; then the kernel is paused.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import itertools
import json
import os
import shutil
import signal
import sys
import tempfile
from typing import Any, Dict, List, Optional

from ..keeper.exit_cause import HostWatch
from ..keeper.kernel_process import KernelProcess
from ..keeper.kernel_startup import KernelStartup
from ..keeper.owned_process import become_subreaper
from ..metrics.libtpu import read_places
from ..protocol import messages
from ..protocol.chips import holders
from ..protocol.events import CONTROL, IOPUB, KEEPER, SHELL
from ..protocol.frames import ProtocolError
from ..protocol.login_shell import OUTPUT_MARK
from ..protocol.paths import private_folder, run_folder
from ..protocol.process_env import complete_variables, process_environment
from ..protocol.timeouts import exit_within, is_set_within, with_timeout
from . import wire
from .present import PREFIX, end_earlier, record_presence

#: Bytes of output that wait here until the kernel is paused, and until it is resumed.
PAUSE_BYTES, RESUME_BYTES = 64 << 20, 16 << 20
#: Bytes of a message from which it is sent without waiting for others.
PIECE_BYTES = 64 << 10
#: Seconds for which what a cell prints on other hosts than 0 may wait for more, to be sent with it.
TOGETHER_SECONDS = 0.05
#: Seconds for a kernel to shut down when it is asked, and for this process to end.
SHUT_DOWN, END_SECONDS = 1.5, 10.0
#: Seconds for libtpu to say what the chips run.
PLACES_SECONDS = 0.3
#: Seconds between two looks at what waits. Every so many of them: a look at the host's memory, and
#: a sign of life; without that a connection that is dead would not be noticed.
TURN_SECONDS, WATCH_TURNS, ALIVE_TURNS = 0.2, 5, 100
#: How often, with a turn in between, a host looks whether the chips of an ended kernel are free.
CHIPS_LOOKS = 40


def run_member() -> int:
    """The process's main."""
    output = os.dup(1)
    os.dup2(2, 1)  # nothing else may write into the stream
    os.write(output, OUTPUT_MARK)
    line = b""
    while not line.endswith(b"\n"):  # not a byte more: the messages follow
        byte = os.read(0, 1)
        if not byte:
            return 0
        line += byte
    spec = json.loads(line)
    asyncio.run(_run(spec, output))
    os._exit(0)


async def _run(spec: Dict[str, Any], output: int) -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 20)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(output, "wb", 0)
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    try:
        folder = private_folder(tempfile.mkdtemp(prefix=PREFIX, dir=run_folder()))
    except OSError as error:
        writer.write(wire.encode_note(event="problem", message=_failure(error)))
        await writer.drain()
        return
    try:
        member = Member(spec, folder, writer)
        if "warm" not in spec or await member.wait_warm(reader):
            await member.run(reader)
        with contextlib.suppress(OSError):
            await writer.drain()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


#: In the header of a request to run a cell.
_CELL = b'"execute_request"'


def _is_status(parts: List[bytes], at: int, state: bytes) -> bool:
    return b'"status"' in parts[at + messages.HEADER] and state in parts[at + messages.CONTENT]


class KernelCellEnds:
    """Knows when a kernel has sent all of a cell: its reply, and that it is idle, in any order."""

    def __init__(self) -> None:
        self._first = b""  # the header of the cell of which one of them has come

    def note(self, channel: int, parts: List[bytes], at: int) -> bool:
        """Takes a message about a cell. Returns whether it is the last one."""
        if channel == IOPUB and not _is_status(parts, at, b"idle"):
            return False
        cell = parts[at + messages.PARENT]
        if self._first == cell:
            self._first = b""
            return True
        self._first = cell
        return False


def _failure(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "Its disk is full, so the kernel cannot start there. Delete files on it."
    return "The kernel cannot be started: %s" % error


class Member:
    """One host's kernel.

    Parameters
    ----------
    spec: ``host``, ``python``, ``key``, ``env``, ``cwd``, ``mirrored`` (whether that is made if it
        is missing), ``needs_chips``, ``kernel`` (its id), ``notebook``. With ``warm``, modules to
        import, the kernel is started ahead, and the rest counts that the conductor sends later.
    folder: for its sockets.
    writer: to the conductor.
    """

    def __init__(self, spec: Dict[str, Any], folder: str, writer: asyncio.StreamWriter) -> None:
        self._spec = spec
        self._folder = folder
        self._writer = writer
        self._signer = messages.MessageSigner(spec["key"], "conductor")
        self._warm: Optional[KernelProcess] = None
        self._startup = KernelStartup(self._signer)
        self._watch = HostWatch()
        self._died = asyncio.Event()
        self._process: Optional[KernelProcess] = None
        self._unsent: List[bytes] = []  # what is sent to the conductor together
        self._unsent_bytes = 0
        self._flushing: Optional[asyncio.Handle] = None  # when it is sent
        self._ended = KernelCellEnds()

    async def wait_warm(self, reader: asyncio.StreamReader) -> bool:
        """Starts a kernel ahead, and waits until it is needed. False: it is not."""
        problem = self._no_python()
        if problem:
            self._note(event="problem", message=problem)
            return False
        warm = self._warm = KernelProcess({**self._kernel_spec(), "warm": self._spec["warm"]})
        loop = asyncio.get_running_loop()
        self._note(event="warm", report=await loop.run_in_executor(None, warm.wait_until_warm))
        alive = asyncio.ensure_future(self._stay_alive())
        try:
            _, parts = await wire.read(reader)
            note = wire.decode_note(parts)
            self._spec = note["spec"]
            return True
        except (asyncio.IncompleteReadError, ProtocolError, OSError, KeyError):
            warm.signal(signal.SIGKILL)
            return False
        finally:
            alive.cancel()

    async def run(self, reader: asyncio.StreamReader) -> None:
        """Runs until the kernel has ended, or the conductor is gone."""
        from ..keeper.channels import KernelChannels

        if self._spec["kernel"]:
            end_earlier(self._spec["kernel"])
        record_presence(self._folder, self._spec["kernel"], self._spec["notebook"])
        problem = self._no_python() or await self._no_chips()
        if problem:
            self._note(event="problem", message=problem)
            return
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGCHLD, self._child_ended)
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            loop.add_signal_handler(number, lambda: None)  # the conductor ends it
        try:
            process = self._process = self._start()
        except OSError as error:
            self._note(event="problem", message=_failure(error))
            return
        become_subreaper()
        loop.add_reader(process.output, self._read_output)
        self._channels = KernelChannels(process.connection, self._from_kernel)
        tasks = [
            asyncio.ensure_future(self._listen(reader)),
            asyncio.ensure_future(
                self._startup.ask(self._channels.send, lambda: process.code is None)
            ),
            asyncio.ensure_future(self._stay_alive()),
        ]
        died = asyncio.ensure_future(self._died.wait())
        self._child_ended()
        await asyncio.wait([tasks[0], died], return_when=asyncio.FIRST_COMPLETED)
        exit_within(END_SECONDS)
        if process.code is None:
            process.signal(signal.SIGKILL)
            await is_set_within(self._died, 2.0)
        for task in (*tasks, died):
            task.cancel()
        process.terminate_descendants()
        self._channels.close()

    def _no_python(self) -> str:
        """Why no kernel can start on this host; "" if one can."""
        python = self._spec["python"]
        if os.access(python, os.X_OK):
            return ""
        return "There is no Python at %s. Connect the TPU again." % python

    async def _no_chips(self) -> str:
        """Who has the chips; "" if nobody has. A kernel that was just ended may still have them."""
        held = holders() if self._spec["needs_chips"] else []
        for _ in range(CHIPS_LOOKS):
            if held:
                await asyncio.sleep(TURN_SECONDS)
                held = holders()
        if not held:
            return ""
        return "Its chips are in use by process %(pid)d of %(user)s: %(command)s" % held[0]

    def _start(self) -> KernelProcess:
        """The kernel: the warm one, if there is one that answers. Raises OSError."""
        spec = self._kernel_spec()
        if self._warm is not None:
            try:
                self._warm.assign(spec)
                return self._warm
            except OSError:
                self._warm.signal(signal.SIGKILL)
                os.unlink(os.path.join(self._folder, "connection.json"))
        return KernelProcess(spec)

    def _kernel_spec(self) -> Dict[str, Any]:
        spec = self._spec
        environment = process_environment(spec["python"])
        os.environ.clear()
        os.environ.update(environment)
        if spec["mirrored"]:
            with contextlib.suppress(OSError):  # the sync says why
                os.makedirs(spec["cwd"], exist_ok=True)
        home = os.path.expanduser("~")
        return {
            "folder": self._folder,
            "python": spec["python"],
            "key": spec["key"],
            "env": {**complete_variables(spec["env"]), "JUPYTER_TPU_POD": str(spec["host"])},
            "cwd": spec["cwd"] if os.path.isdir(spec["cwd"]) else home,
        }

    # ---- from the kernel

    def _from_kernel(self, channel: int, parts: List[bytes]) -> None:
        try:
            at = messages.find_delimiter(parts)
        except ValueError:
            return
        if self._startup.is_answer(parts[at + messages.PARENT]):
            if self._startup.note_answer(channel, parts):
                info = json.loads(self._startup.info or b"{}")
                self._note(event="ready", info=info)
            return
        waits = False
        if self._spec["host"] and parts[at + messages.PARENT].find(_CELL) >= 0:
            # Only how the cell ends on these hosts is waited for.
            if channel == IOPUB and _is_status(parts, at, b"busy"):
                return
            waits = channel in (IOPUB, SHELL) and not self._ended.note(channel, parts, at)
        self._send(wire.encode(channel, parts), waits)

    def _send(self, data: bytes, waits: bool) -> None:
        """In one piece with what else the kernel sends: each piece wakes four processes."""
        self._unsent.append(data)
        self._unsent_bytes += len(data)
        if self._unsent_bytes > PIECE_BYTES:
            self._flush()
            return
        loop = asyncio.get_running_loop()
        if self._flushing is None:
            flush = self._flush
            self._flushing = (
                loop.call_later(TOGETHER_SECONDS, flush) if waits else loop.call_soon(flush)
            )
        elif not waits:
            self._flushing.cancel()
            self._flushing = loop.call_soon(self._flush)

    def _flush(self) -> None:
        if self._flushing is not None:
            self._flushing.cancel()
        self._flushing, self._unsent_bytes = None, 0
        unsent, self._unsent = self._unsent, []
        if unsent:
            self._writer.write(b"".join(unsent))
        process = self._process
        if process is not None and self._waiting > PAUSE_BYTES and not process.paused:
            process.pause()

    @property
    def _waiting(self) -> int:
        transport: Any = self._writer.transport
        return int(transport.get_write_buffer_size())

    def _note(self, **fields: Any) -> None:
        self._flush()
        self._writer.write(wire.encode_note(**fields))

    def _read_output(self) -> None:
        if self._process is not None and not self._process.read_output():
            asyncio.get_running_loop().remove_reader(self._process.output)

    def _child_ended(self) -> None:
        process = self._process
        if process is None or not process.reap() or process.code is None:
            return
        self._channels.drain()
        process.read_output()
        self._note(
            event="exited",
            code=process.code,
            cause=self._watch.describe(process.code),
            output=process.tail,
        )
        self._died.set()

    async def _stay_alive(self) -> None:
        for turn in itertools.count(1):
            await asyncio.sleep(TURN_SECONDS)
            process = self._process
            if process is not None and process.paused and self._waiting < RESUME_BYTES:
                process.resume()
            if turn % WATCH_TURNS == 0:
                self._watch.check()
            if turn % ALIVE_TURNS == 0:
                self._note(event="alive")

    async def _tell_places(self) -> None:
        """What the host's chips run; also if nothing is known of it."""
        places: Any = []
        with contextlib.suppress(asyncio.TimeoutError):
            places = await with_timeout(read_places(), PLACES_SECONDS)
        self._note(event="places", places=places)

    # ---- from the conductor

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Returns when the conductor is gone, or does not need the kernel any more."""
        assert self._process is not None
        with contextlib.suppress(asyncio.IncompleteReadError, ProtocolError, OSError):
            while True:
                channel, parts = await wire.read(reader)
                if channel != KEEPER:
                    self._channels.send(channel, parts)
                    continue
                note = wire.decode_note(parts)
                if note.get("do") == "places":
                    self._places = asyncio.ensure_future(self._tell_places())
                elif note.get("do") == "signal":
                    self._process.signal(int(note["signal"]))
                elif note.get("do") == "end":
                    request = self._signer.message("shutdown_request", {"restart": False})
                    self._process.signal(signal.SIGINT)
                    self._channels.send(CONTROL, request)
                    await is_set_within(self._died, SHUT_DOWN)
                    return

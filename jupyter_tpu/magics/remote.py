"""One kernel on a TPU's host that belongs to this notebook's kernel.

It is an ordinary Jupyter kernel of the registered kernelspec, so its provisioner (reconnecting, the
journal) works here, too. Its client runs on the core's thread. The cell's thread takes messages
from a queue, because that wait can be interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from ..errors import InvalidInput, Reason, TPUError
from ..links import Link, core_thread
from .failures import MagicError
from .installation import installation

T = TypeVar("T")

#: Seconds: for a kernel to answer after its start, to shut down, and between checks that it lives.
READY_LIMIT = 120.0
END_LIMIT = 20.0
ALIVE_EVERY = 2.0
#: Seconds for a kernel to make a subshell.
SUBSHELL_LIMIT = 10.0

Message = tuple[str, dict[str, Any]]  # the channel's name, the message


class RemoteKernel:
    """A kernel on host 0 of a TPU, or on all, started by :meth:`start` and ended by :meth:`end`."""

    def __init__(
        self, spec: str, tpu: str, environment: str, display_name: str, all_hosts: bool = False
    ) -> None:
        self.all_hosts = all_hosts
        self.spec = spec
        self.tpu = tpu
        self.environment = environment
        self.display_name = display_name
        self._manager: Any = None
        self._client: Any = None
        self._settled = threading.Event()  # it was started, or what had begun of it is undone
        self._readers: list[asyncio.Task[None]] = []
        self._subshell: str | None = None  # its id, once it is needed; "": there is none
        self._subshells = asyncio.Lock()
        self._runs: dict[str, CellRun] = {}  # by message id, those that have not finished
        #: Called on the core's thread with comm messages that come between cells.
        self.on_comm: Any = None

    @property
    def started(self) -> bool:
        return self._client is not None

    def alive(self) -> bool:
        """Whether the kernel runs, as far as is known; a lost link does not mean a dead kernel."""
        return self.started and _wait(self._manager.is_alive())

    def start(self) -> None:
        """Starts it and waits until it answers. Raises the provisioner's errors, and TIMEOUT.

        After an interrupt it runs no longer: neither here nor on the host.
        """
        try:
            _wait(self._start())
        except KeyboardInterrupt:
            self._settled.wait(END_LIMIT)
            self.end()
            raise

    def end(self) -> None:
        """Ends the kernel on the host; does nothing if it was not started."""
        _wait(self._end(), END_LIMIT + 5)

    def interrupt(self) -> None:
        _wait(self._manager.interrupt_kernel())

    def answer(self, text: str) -> None:
        """Replies to an input_request."""

        async def send() -> None:
            self._client.input(text)

        _wait(send())

    def send_comm(self, kind: str, content: dict[str, Any], buffers: list[Any]) -> None:
        """Forwards a frontend's comm message; from any thread, without waiting."""

        async def send() -> None:
            if self._client is not None:
                message = self._client.session.msg(kind, content)
                message["buffers"] = buffers
                self._client.shell_channel.send(message)

        core_thread().submit(send())

    @property
    def hosts(self) -> int:
        """On how many hosts it runs its cells."""
        return max(1, int(self._manager.provisioner.hosts))

    def host(self, number: int = 0) -> Link:
        """The link to one of the kernel's hosts; call it on the core's thread."""
        link: Link = self._manager.provisioner.host(number)
        return link

    def execute_on(self, host: str, code: str, **options: Any) -> CellRun:
        """As :meth:`execute`, on one host of a kernel on all hosts. Raises INVALID for another."""
        if not self.all_hosts:
            raise InvalidInput(
                f"The kernel on {self.tpu} has one host.",
                "Start one on all hosts: %tpu connect NAME --all-hosts",
            )
        if not host.isdecimal() or int(host) >= self.hosts:
            raise InvalidInput(f"{host!r} is not a host: they are 0 to {self.hosts - 1}.")
        return self.execute(f"%%host {host}\n{code}", **options)

    def execute(self, code: str, **options: Any) -> CellRun:
        """Sends *code*; the result yields each message about it. The last one is the reply.

        *options* of jupyter_client's ``execute``. The kernel runs one request after the other.
        """
        return _wait(self._execute(code, options))

    def execute_concurrently(self, code: str) -> CellRun:
        """As :meth:`execute`, but at once, while a cell runs: in a subshell, another thread of the
        kernel. One that has no subshells runs it after the cell. Nothing is kept of it.
        """
        return _wait(self._execute_concurrently(code))

    def unfinished(self) -> CellRun | None:
        """A request that runs or waits in the kernel; the one sent first."""
        return next(iter(tuple(self._runs.values())), None)

    # ---- on the core's thread ------------------------------------------------------------------

    async def _start(self) -> None:
        from jupyter_client.manager import AsyncKernelManager

        manager = AsyncKernelManager(kernel_name=self.spec)
        client = None
        try:
            await manager.start_kernel(answers_when_dead=True)
            client = manager.client()
            client.start_channels()
            await client.wait_for_ready(timeout=READY_LIMIT)
        except BaseException as error:
            if client is not None:
                client.stop_channels()
            if manager.has_kernel:
                await manager.shutdown_kernel(now=True)
            self._settled.set()
            if isinstance(error, RuntimeError):  # also what jupyter_client raises for its timeout
                raise TPUError(
                    f"The kernel on {self.tpu} did not start: {error}.",
                    Reason.TIMEOUT,
                    "`%tpu list` shows the state of the TPU.",
                ) from None
            raise
        # Its errors show in the first value that is asked for: see `cells`.
        client.execute(installation(), silent=True, store_history=False)
        self._manager, self._client = manager, client
        self._settled.set()
        self._readers = [
            asyncio.create_task(self._read("iopub", client.get_iopub_msg)),
            asyncio.create_task(self._read("shell", client.get_shell_msg)),
            asyncio.create_task(self._read("stdin", client.get_stdin_msg)),
        ]

    async def _end(self) -> None:
        if self._client is None:
            return
        for reader in self._readers:
            reader.cancel()
        self._client.stop_channels()
        self._client = None
        manager, self._manager = self._manager, None
        with contextlib.suppress(asyncio.TimeoutError):
            async with asyncio.timeout(END_LIMIT):
                await manager.shutdown_kernel()

    async def _read(self, channel: str, get: Any) -> None:
        while True:
            message = await get(timeout=None)
            run = self._runs.get(message["parent_header"].get("msg_id"))
            if message["msg_type"].startswith("comm_") and (run is None or run.detached):
                if self.on_comm is not None:
                    self.on_comm(message)
            elif run is not None and run.arrived(channel, message):
                del self._runs[run.id]

    async def _execute(self, code: str, options: dict[str, Any]) -> CellRun:
        if self._client is None:
            raise TPUError(f"The kernel on {self.tpu} has ended.", Reason.CONFLICT)
        id = self._client.execute(code, stop_on_error=False, **options)
        run = self._runs[id] = CellRun(self, id)
        return run

    async def _execute_concurrently(self, code: str) -> CellRun:
        if not self._runs:
            return await self._execute(code, {"store_history": False})
        async with self._subshells:
            if self._subshell is None:
                self._subshell = await self._create_subshell()
        content = {"code": code, "silent": False, "store_history": False, "allow_stdin": False,
                   "stop_on_error": False, "user_expressions": {}}  # fmt: skip
        message = self._client.session.msg("execute_request", content)
        if self._subshell:
            message["header"]["subshell_id"] = self._subshell
        id = message["header"]["msg_id"]
        run = self._runs[id] = CellRun(self, id)
        self._client.shell_channel.send(message)
        return run

    async def _create_subshell(self) -> str:
        """Its id; "" if the kernel has no subshells."""
        request = self._client.session.msg("create_subshell_request", {})
        self._client.control_channel.send(request)
        with contextlib.suppress(asyncio.TimeoutError, queue.Empty):
            async with asyncio.timeout(SUBSHELL_LIMIT):
                while True:
                    answer = await self._client.get_control_msg(timeout=SUBSHELL_LIMIT)
                    if answer["parent_header"].get("msg_id") == request["header"]["msg_id"]:
                        return str(answer["content"].get("subshell_id", ""))
        return ""


class CellRun:
    """One request and the messages about it, up to its reply and the end of its output.

    An interrupt of the thread that waits for the next message is raised there; the iterator stays
    usable.
    """

    def __init__(self, kernel: RemoteKernel, id: str) -> None:
        self.kernel = kernel
        self.id = id
        #: No one waits for its messages, so its comms are served as those between cells.
        self.detached = False
        #: Whether the kernel has begun with it. Until then it ignores an interrupt.
        self.begun = False
        self.reply: dict[str, Any] | None = None
        self._idle = False
        self._started = time.monotonic()
        self._took: float | None = None
        #: None is the end.
        self._messages: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._ended = False
        self._done = threading.Event()

    @property
    def finished(self) -> bool:
        return self._idle and self.reply is not None

    def arrived(self, channel: str, message: dict[str, Any]) -> bool:
        """Takes a message, on the core's thread; whether it was the last one."""
        if channel == "shell":
            self.reply = message
        elif message["msg_type"] == "status":
            self._idle = message["content"]["execution_state"] == "idle"
        else:
            self.begun = True
            self._messages.put((channel, message))
        if self.finished:
            self._took = self.seconds
            self._messages.put(None)
            self._done.set()
        return self.finished

    @property
    def seconds(self) -> float:
        """Since it was sent, until now or until it finished."""
        return time.monotonic() - self._started if self._took is None else self._took

    def wait(self, seconds: float = ALIVE_EVERY) -> bool:
        """Whether it finishes within *seconds*; takes none of its messages.

        Raises CONFLICT if the kernel dies.
        """
        if self._done.wait(seconds):
            return True
        self._check_alive()
        return False

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        """Raises CONFLICT if the kernel dies."""
        while not self._ended:
            try:
                return self.next_within(ALIVE_EVERY)
            except queue.Empty:
                self._check_alive()
        raise StopIteration

    def _check_alive(self) -> None:
        if not self.kernel.alive():
            raise TPUError(
                f"The kernel on {self.kernel.tpu} died.",
                Reason.CONFLICT,
                "Run the cell again to start a new one, without the old one's variables.",
            )

    def next_within(self, seconds: float) -> Message:
        """As ``next``; raises ``queue.Empty`` if no message comes in this time."""
        message = None if self._ended else self._messages.get(timeout=seconds)
        if message is not None:
            return message
        if self._ended:
            raise StopIteration
        self._ended = True
        assert self.reply is not None
        return "shell", self.reply


def _wait(coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
    return core_thread().wait(coroutine, timeout)


def wait_for_turn(kernel: RemoteKernel) -> None:
    """Returns when the kernel has done what it was sent before.

    What is sent then can be interrupted without interrupting another cell.
    """
    run = kernel.unfinished()
    if run is None:
        return
    try:
        print(f"Waiting for the cell that runs on {kernel.tpu} …", file=sys.stderr)
        while run is not None:
            if run.wait():
                run = kernel.unfinished()
    except KeyboardInterrupt:
        raise MagicError(
            f"This cell did not start. The one before it still runs on {kernel.tpu}."
        ) from None

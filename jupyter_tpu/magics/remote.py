"""One kernel on a TPU's host that belongs to this notebook's kernel.

It is an ordinary Jupyter kernel of the registered kernelspec, so its provisioner (reconnecting, the
journal) works here, too. Its client runs on the core's thread. The cell's thread takes messages
from a queue, because that wait can be interrupted.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from ..errors import Reason, TPUError
from ..links import core_thread

T = TypeVar("T")

#: Seconds: for a kernel to answer after its start, to shut down, and between checks that it lives.
READY_LIMIT = 120.0
END_LIMIT = 20.0
ALIVE_EVERY = 2.0

Message = tuple[str, dict[str, Any]]  # the channel's name, the message


class RemoteKernel:
    """A kernel on host 0 of a TPU, started by :meth:`start` and ended by :meth:`end`."""

    def __init__(self, spec: str, tpu: str, environment: str, display_name: str) -> None:
        self.spec = spec
        self.tpu = tpu
        self.environment = environment
        self.display_name = display_name
        self._manager: Any = None
        self._client: Any = None
        self._settled = threading.Event()  # it was started, or what had begun of it is undone
        self._readers: list[asyncio.Task[None]] = []
        self._messages: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._request = ""  # the id of the execute_request that runs
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

    def execute(self, code: str, *, allow_stdin: bool) -> Iterator[Message]:
        """Runs *code*, and yields each message about it as it arrives; the reply is the last one.

        An interrupt of this thread while it waits is raised here; the iterator stays usable.
        """
        return _Run(self, code, allow_stdin)

    # ---- on the core's thread ------------------------------------------------------------------

    async def _start(self) -> None:
        from jupyter_client.manager import AsyncKernelManager

        manager = AsyncKernelManager(kernel_name=self.spec)
        client = None
        try:
            await manager.start_kernel()
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
            await asyncio.wait_for(manager.shutdown_kernel(), END_LIMIT)

    async def _read(self, channel: str, get: Any) -> None:
        while True:
            message = await get(timeout=None)
            parent = message["parent_header"].get("msg_id")
            if parent == self._request:
                self._messages.put((channel, message))
            elif message["msg_type"].startswith("comm_") and self.on_comm is not None:
                self.on_comm(message)

    async def _begin(self, code: str, allow_stdin: bool) -> str:
        if self._client is None:
            raise TPUError(f"The kernel on {self.tpu} has ended.", Reason.CONFLICT)
        self._messages = queue.SimpleQueue()
        self._request = self._client.execute(code, allow_stdin=allow_stdin, stop_on_error=False)
        return self._request


class _Run:
    """The messages about one cell, up to its reply and the end of its output."""

    def __init__(self, kernel: RemoteKernel, code: str, allow_stdin: bool) -> None:
        self._kernel = kernel
        _wait(kernel._begin(code, allow_stdin))
        self._reply: dict[str, Any] | None = None
        self._idle = False
        self._given = False

    def __iter__(self) -> Iterator[Message]:
        return self

    def __next__(self) -> Message:
        kernel = self._kernel
        while not self._given:
            if self._reply is not None and self._idle:
                self._given = True
                return "shell", self._reply
            try:
                channel, message = kernel._messages.get(timeout=ALIVE_EVERY)
            except queue.Empty:
                if not kernel.alive():
                    raise TPUError(
                        f"The kernel on {kernel.tpu} died.",
                        Reason.CONFLICT,
                        "Run the cell again to start a new one, without the old one's variables.",
                    ) from None
                continue
            if channel == "shell":
                self._reply = message
            elif message["msg_type"] == "status":
                self._idle = message["content"]["execution_state"] == "idle"
            else:
                return channel, message
        raise StopIteration


def _wait(coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
    return core_thread().wait(coroutine, timeout)

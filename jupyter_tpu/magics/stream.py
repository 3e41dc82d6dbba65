"""The notebook's side of a transfer: variables over the kernel's SSH connection.

They do not pass through its messages and their journal, and arrays are copied as raw bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import InvalidInput, Reason, TPUError
from ..links import core_thread
from ..on_host.variables import codec
from ..on_host.variables.kernel import SIZE, SOCKET
from ..wording import size_text
from .installation import host_call

if TYPE_CHECKING:
    from .remote import CellRun, RemoteKernel


T = TypeVar("T")

#: Called with the bytes that have been copied, and all bytes.
Progress = Callable[[int, int], None]
#: Reads or writes the stream to the kernel.
Work = Callable[[Any, Any, Progress], Awaitable[T]]

#: Bytes that are read or written at once.
CHUNK_BYTES = 1 << 20
#: Bytes of a header, which has everything but the bytes of arrays.
LONGEST_HEADER = 256 << 20
#: Seconds for the kernel to end a transfer that failed, and to say why.
END_LIMIT = 5.0


def push(kernel: RemoteKernel, values: dict[str, Any], progress: Progress) -> int:
    """Sends *values* to the kernel, as variables of these names; returns their size in bytes.

    All of them are set there, or none. Raises INVALID for what can't be sent.
    """
    try:
        header, buffers = codec.encode(values, pickled=True)
    except codec.CodecError as error:
        raise InvalidInput(str(error)) from None
    total = sum(buffer.nbytes for buffer in buffers)

    async def work(reader: Any, writer: Any, progress: Progress) -> None:
        writer.write(SIZE.pack(len(header)) + header)
        done = 0
        for buffer in buffers:
            for start in range(0, buffer.nbytes, CHUNK_BYTES):
                writer.write(bytes(buffer[start : start + CHUNK_BYTES]))
                await writer.drain()
                done += len(buffer[start : start + CHUNK_BYTES])
                progress(done, total)
        await writer.drain()

    _transfer(kernel, host_call("receive"), work, progress)
    return total + len(header)


def pull(
    kernel: RemoteKernel,
    names: list[str],
    progress: Progress,
    *,
    unpickle: bool,
    host: str | None = None,
) -> tuple[dict[str, Any], int]:
    """Variables of the kernel by name, and their size in bytes.

    host: whose they are in a kernel on all hosts; None: those of host 0.
    unpickle: whether objects may be unpickled, which can run any code of the TPU here.

    Raises INVALID for what can't be sent, or not without being unpickled.
    """

    async def work(reader: Any, writer: Any, progress: Progress) -> tuple[Any, list[bytearray]]:
        (length,) = SIZE.unpack(await reader.readexactly(SIZE.size))
        if length > LONGEST_HEADER:
            raise codec.CodecError(
                "It has more than 256 MB beside the content of its arrays. Make lists of numbers "
                "arrays first, with numpy.asarray."
            )
        header = codec.parse_header(await _read(reader, length, lambda size: None))
        total, done = sum(header["sizes"]), 0
        if total > (memory := _memory()):
            raise codec.CodecError(
                f"It has {size_text(total)}, and this computer's memory {size_text(memory)}."
            )

        def count(size: int) -> None:
            nonlocal done
            done += size
            progress(done, total)

        buffers = [await _read(reader, size, count) for size in header["sizes"]]
        return header, buffers

    try:
        if host is None and kernel.all_hosts:
            host = "0"
        call = host_call("send", names, unpickle)
        header, buffers = _transfer(kernel, call, work, progress, host)
        values = codec.decode(header, buffers, unpickle=unpickle, import_jax=False, names=names)
    except codec.CodecError as error:
        raise InvalidInput(str(error)) from None
    return values, sum(header["sizes"])


def _memory() -> int:
    """Bytes of this computer's memory; more than any has where the system does not say it."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return 1 << 50


async def _read(reader: Any, size: int, count: Callable[[int], None]) -> bytearray:
    data = bytearray()  # grows with what comes: the size is only what the host says
    while len(data) < size:
        part = await reader.read(min(CHUNK_BYTES, size - len(data)))
        if not part:
            raise TPUError("The transfer was cut off.", Reason.UNREACHABLE, "Try again.")
        data += part
        count(len(part))
    return data


def _transfer(
    kernel: RemoteKernel, call: str, work: Work[T], progress: Progress, host: str | None = None
) -> T:
    """Has the kernel call its side, on one *host* or all, connects to it, and does *work* on the
    stream. In a kernel on all hosts, all call it, and host 0 has the stream.
    """
    options = {"silent": True, "store_history": False}
    if host is None:
        run = kernel.execute(call, **options)
    else:
        run = kernel.execute_on(host, call, **options)
    try:
        result = _watched(kernel, int(host or 0), _socket(run), work, progress)
        for _ in run:
            pass
        _check(run)
        return result
    except TPUError:
        if run.wait(END_LIMIT):
            _check(run)  # the kernel's reason is the better one
        raise
    finally:
        if not run.finished:  # it waits for bytes that will not come
            with contextlib.suppress(TPUError):
                kernel.interrupt()
                run.wait(END_LIMIT)


def _socket(run: CellRun) -> str:
    """The path of the socket on which the kernel listens."""
    for channel, message in run:
        if channel == "iopub" and SOCKET in message["content"].get("data", {}):
            return str(message["content"]["data"][SOCKET])
    _check(run)
    raise TPUError("The kernel ended the transfer.", Reason.CONFLICT, "Try again.")


def _check(run: CellRun) -> None:
    """Raises what the kernel's side raised."""
    assert run.reply is not None
    reply = run.reply["content"]
    if reply["status"] == "ok":
        return
    name, text = reply.get("ename", ""), reply.get("evalue", "")
    if name == codec.NeedsPickle.__name__:
        raise InvalidInput(
            f"{text} It would have to be unpickled here, which can run any code of the TPU.",
            "If you trust what runs there, allow it: --unpickle, or pull(unpickle=True).",
        )
    if name == codec.CodecError.__name__:
        raise InvalidInput(text)
    if reply["status"] == "aborted":
        raise TPUError("The transfer did not begin: the kernel was interrupted.", Reason.CANCELLED)
    raise TPUError(f"The transfer failed on {run.kernel.tpu}: {name}: {text}", Reason.CONFLICT)


def _watched(kernel: RemoteKernel, host: int, path: str, work: Work[T], progress: Progress) -> T:
    """*work* on the core's thread; its progress is reported on this one."""
    states: queue.SimpleQueue[tuple[int, int] | None] = queue.SimpleQueue()

    async def connected() -> T:
        from ..ssh.library import asyncssh

        try:
            reader, writer = await kernel.host(host).open_unix(path)
            try:
                return await work(reader, writer, lambda *state: states.put(state))
            finally:
                writer.close()
        except (OSError, asyncio.IncompleteReadError, asyncssh.Error) as error:
            raise TPUError(
                f"The transfer was cut off: {error}.", Reason.UNREACHABLE, "Try again."
            ) from error
        finally:
            states.put(None)

    future = core_thread().submit(connected())
    try:
        while (state := states.get()) is not None:
            progress(*state)
        return future.result()
    finally:
        future.cancel()

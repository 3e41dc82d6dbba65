"""The kernel's side of a transfer. It runs in the kernel on the host, as silent cells.

A value that is asked for, or sent, goes over a unix socket in a folder of mode 0700, to which the
notebook's SSH connection leads; small results of cells come with their reply.
"""

from __future__ import annotations

import base64
import builtins
import json
import os
import shutil
import socket
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .codec import CodecError, decode, encode

#: Media types of a reply's value, and of the path of a socket.
VALUE = "application/vnd.jupyter-tpu.value+json"
SOCKET = "application/vnd.jupyter-tpu.socket+json"
#: The media type of the names of an error's built-in classes, the nearest first.
CLASSES = "application/vnd.jupyter-tpu.classes+json"
#: Bytes of a result that comes with the reply of its cell.
SMALL_RESULT_BYTES = 64 << 10
#: Seconds in which the notebook must connect.
CONNECT_LIMIT = 30.0
#: Set in the kernels of which a kernel on all hosts consists: the host's number.
POD = "JUPYTER_TPU_POD"
#: Bytes that all hosts get from host 0 at once.
PART_BYTES = 32 << 20
#: Bytes before the header: its size.
SIZE = struct.Struct(">Q")


class Reply:
    """A value as what IPython evaluates to a bundle, and so puts into the reply of a request."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {VALUE: self._value}


def last_value() -> Reply | None:
    """The result of the cell that just ran, if it is small and plain; else None."""
    shell: Any = _shell()
    number = shell.execution_count - 1
    if number not in shell.user_ns.get("_oh", {}):
        return None
    try:
        header, buffers = encode(
            {"_": shell.user_ns["_oh"][number]}, pickled=False, limit=SMALL_RESULT_BYTES
        )
    except CodecError:
        return None
    parts = [base64.b64encode(buffer).decode() for buffer in buffers]
    return Reply({"header": json.loads(header), "buffers": parts})


def main() -> None:
    """From now on the classes of a cell's error follow it, in a message of their own."""
    _shell().events.register("post_run_cell", _show_classes)


def _show_classes(result: Any) -> None:
    from IPython.display import publish_display_data

    if result.error_in_exec is not None:
        bases = type(result.error_in_exec).__mro__
        names = [base.__name__ for base in bases if base.__module__ == builtins.__name__]
        publish_display_data({CLASSES: names})


def send(names: list[str], pickled: bool) -> None:
    """Sends variables of this kernel to the notebook, which connects to the displayed path."""
    namespace = _shell().user_ns
    for name in names:
        if name not in namespace:
            raise CodecError(f"The variable {name} does not exist in this kernel.")
    header, buffers = encode({name: namespace[name] for name in names}, pickled=pickled)
    with _connected() as connection:
        connection.sendall(SIZE.pack(len(header)) + header)
        for buffer in buffers:
            connection.sendall(buffer)


def receive() -> None:
    """Takes variables from the notebook, which connects to the displayed path. In a kernel on all
    hosts each host calls it: host 0 takes them, and gives them to the others.
    """
    host = os.environ.get(POD, "")
    if not host:
        header, buffers = _received()
    elif host == "0":
        try:
            header, buffers = _received()
        except BaseException:
            _share(None)  # the others wait for it
            raise
        _share(json.dumps(header).encode())
        for buffer in buffers:
            _share(buffer)
    else:
        content = _share(None)
        if content is None:
            raise CodecError("Host 0 did not get the variables.")
        header = json.loads(content)
        buffers = [_share(None) for _ in header["sizes"]]
    _shell().push(decode(header, buffers, unpickle=True, import_jax=True))


def _received() -> tuple[dict[str, Any], list[bytearray]]:
    with _connected() as connection:
        (size,) = SIZE.unpack(_read(connection, SIZE.size))
        header = json.loads(_read(connection, size))
        return header, [_read(connection, size) for size in header["sizes"]]


def _share(data: Any) -> Any:
    """Gives all hosts host 0's bytes, over the network of the TPU; None if host 0 has none.

    Each host calls it as often, others with None. In parts, which need memory of the devices.
    """
    import jax
    import numpy
    from jax.experimental import multihost_utils

    is_source = jax.process_index() == 0

    def broadcast(part: Any) -> Any:
        # Without a sum over hosts, which JAX computes in a wider type than bytes.
        return numpy.asarray(multihost_utils.broadcast_one_to_all(part, is_source=is_source))

    # In two numbers of 32 bits: JAX has no wider ones by default. -1: there is nothing.
    size = -1 if data is None else len(data)
    words = numpy.array([size >> 31, size & 0x7FFFFFFF], numpy.int32)
    high, low = broadcast(words).tolist()
    if high < 0:
        return None
    size = (high << 31) + low
    content = bytearray(size) if data is None else data
    for start in range(0, size, PART_BYTES):
        part = numpy.frombuffer(content, numpy.uint8)[start : start + PART_BYTES]
        shared = broadcast(part)
        if data is None:
            content[start : start + PART_BYTES] = shared.astype(numpy.uint8).tobytes()
    return content


@contextmanager
def _connected() -> Iterator[socket.socket]:
    """The notebook's connection. Its path is displayed when the notebook can connect."""
    from IPython.display import publish_display_data

    folder = tempfile.mkdtemp(prefix="jupyter-tpu-", dir="/tmp")  # a short path, as sockets need
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            path = f"{folder}/transfer"
            listener.bind(path)
            listener.listen(1)
            listener.settimeout(CONNECT_LIMIT)
            publish_display_data({SOCKET: path})
            connection, _ = listener.accept()
        with connection:
            connection.settimeout(None)
            yield connection
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _read(connection: socket.socket, size: int) -> bytearray:
    data = bytearray(size)
    rest = memoryview(data)
    while rest:
        count = connection.recv_into(rest)
        if not count:
            raise CodecError("The notebook stopped sending.")
        rest = rest[count:]
    return data


def _shell() -> Any:
    from IPython import get_ipython

    return get_ipython()

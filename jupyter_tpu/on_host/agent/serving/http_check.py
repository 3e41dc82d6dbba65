"""One GET request to a server of this host, bounded in bytes and time, without a thread."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from typing import Optional, Tuple

#: Bytes that are read of an answer.
PIECE_BYTES = 64 << 10
ADDRESS = "127.0.0.1"


class HttpCheck:
    """Asks 127.0.0.1 for *path*. Call `advance` when `reading` or `writing` is ready, until `done`.

    limit: bytes of the answer that are read; what follows is not. Times are of one clock, seconds.

    Attributes
    ----------
    status: of the answer; 0 if there is none, and `problem` says why.
    """

    def __init__(self, port: int, path: str, limit: int, deadline: float) -> None:
        self.path = path
        self.deadline = deadline
        self.done = False
        self.status = 0
        self.problem = ""
        self.local_port = 0
        self._limit = limit
        self._received = bytearray()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self._socket.setblocking(False)
        self._unsent = (
            "GET %s HTTP/1.1\r\nHost: localhost:%d\r\nUser-Agent: jupyter-tpu\r\n"
            "Accept: */*\r\nConnection: close\r\n\r\n" % (path, port)
        ).encode()
        code = self._socket.connect_ex((ADDRESS, port))
        if code in (0, errno.EINPROGRESS):
            self.local_port = self._socket.getsockname()[1]
        else:
            self._end(os.strerror(code))

    @property
    def reading(self) -> Optional[int]:
        """The descriptor that can be waited for."""
        return None if self.done or self._unsent else self._socket.fileno()

    @property
    def writing(self) -> Optional[int]:
        return self._socket.fileno() if not self.done and self._unsent else None

    def advance(self) -> None:
        """The socket is ready."""
        try:
            if self._unsent:
                code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                if code:
                    return self._end(os.strerror(code))
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            else:
                data = self._socket.recv(PIECE_BYTES)
                self._received += data
                if not data or len(self._received) > self._limit:
                    self._end("")
        except BlockingIOError:
            pass
        except OSError as error:
            self._end(error.strerror or str(error))
        return None

    def expire(self, now: float) -> None:
        """Gives up after the deadline. A server that has said its status has answered."""
        if not self.done and now >= self.deadline:
            self._end("it does not answer")

    def _end(self, problem: str) -> None:
        self.done = True
        self._socket.close()
        words = bytes(self._received[:64]).split(None, 2)
        if len(words) > 1 and words[0].startswith(b"HTTP/1.") and words[1][:3].isdigit():
            self.status = int(words[1][:3])
        else:
            self.problem = problem or "its answer is not HTTP"

    def close(self) -> None:
        self.done = True
        self._socket.close()

    def body(self) -> Tuple[bytes, bool]:
        """The content of the answer, and whether all of it was read."""
        return split_answer(bytes(self._received))[1], len(self._received) <= self._limit


def split_answer(answer: bytes) -> Tuple[bytes, bytes]:
    """The head and the content of a whole answer, or of its beginning."""
    head, _, body = answer.partition(b"\r\n\r\n")
    return head, _joined(body) if b"transfer-encoding: chunked" in head.lower() else body


def _joined(chunks: bytes) -> bytes:
    """The content of chunks. Source: RFC 9112, 7.1."""
    content = bytearray()
    with contextlib.suppress(ValueError):
        while chunks:
            line, _, chunks = chunks.partition(b"\r\n")
            size = int(line.partition(b";")[0], 16)
            if size <= 0:
                break
            content += chunks[:size]
            chunks = chunks[size + 2 :]
    return bytes(content)

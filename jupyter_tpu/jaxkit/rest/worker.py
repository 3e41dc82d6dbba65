"""The worker process: ``python -m jupyter_tpu.jaxkit.rest.worker MEMORY_BYTES``.

Frames on stdin and stdout: the head of a request is its name, the body its JSON; the head of an
answer is an `AnswerHead`. One request at a time; the process may be killed at any time. It ends
when stdin ends, and automatically when it has grown (compiled programs stay in jax's caches).
"""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec

from ...errors import Reason, TPUError
from ..processes.frames import pack, read_frame, write_frame

#: Bytes of a request.
MAX_BODY = 16 << 20
#: Bytes of an answer.
MAX_ANSWER = 128 << 20
#: Resident memory of a process without jax, and a margin.
_BARE_PROCESS_BYTES = 256 << 20


class AnswerHead(msgspec.Struct, kw_only=True):
    """The head of an answer; the first one, with `ready`, comes before any request."""

    ready: bool = False
    content_type: str = ""
    headers: dict[str, str] = {}
    message: str = ""
    reason: Reason | None = None
    hint: str = ""
    #: The process ends now: the next request needs a new one.
    last: bool = False


def main() -> None:
    memory = int(sys.argv[1])
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # prints must not mix with the frames
    requests = sys.stdin.buffer
    start = 0
    _say(answers, AnswerHead(ready=True))
    while True:
        try:
            name, body = read_frame(requests, MAX_BODY)
        except EOFError:
            return
        if not start and name.startswith(b"prng/"):
            # The first request that needs jax imports it; placement and tiling don't need it.
            import_jax()
            start = limit_memory(memory)
        head, content = respond(name.decode(), body)
        head.last = _resident() > (start or _BARE_PROCESS_BYTES) + memory // 2
        write_frame(answers, msgspec.json.encode(head), content)
        if head.last:
            return


def respond(name: str, body: bytes) -> tuple[AnswerHead, bytes]:
    """Head and body of the answer to one request; an error is in the head."""
    from .answers import answer

    try:
        response = answer(name, body)
    except TPUError as error:
        return AnswerHead(message=error.message, reason=error.reason, hint=error.hint), b""
    except MemoryError:
        return _too_large(), b""
    except Exception as error:
        if "RESOURCE_EXHAUSTED" in str(error) or "Out of memory" in str(error):
            return _too_large(), b""
        # A bug of ours: the process continues; the traceback is for the log.
        sys.excepthook(*sys.exc_info())
        message = f"jaxkit failed at {name}: {type(error).__name__}."
        return AnswerHead(message=message, reason=Reason.INTERNAL), b""
    return AnswerHead(content_type=response.content_type, headers=response.headers), response.body


def import_jax() -> None:
    """Imports jax, starts its backend and runs a first program, before memory is limited."""
    import jax

    jax.random.key(0).block_until_ready()


def limit_memory(memory: int) -> int:
    """Limits this process to *memory* bytes more than it has now; returns what it has now."""
    try:
        import resource

        with open("/proc/self/statm") as file:
            mapped = int(file.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        return 0  # not Linux: only the limits of requests apply
    # Threads reserve address space that they never touch: hence the margin.
    most = mapped + memory + (1 << 30)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or most < hard:
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    return _resident()


def _resident() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _too_large() -> AnswerHead:
    return AnswerHead(
        message="The request needs more memory than the worker may use.",
        reason=Reason.INVALID,
        hint="Request a smaller array.",
    )


def _say(answers: Any, head: AnswerHead) -> None:
    answers.write(pack(msgspec.json.encode(head), b""))
    answers.flush()


if __name__ == "__main__":
    main()

"""The worker process: ``python -m jupyter_tpu.jaxkit.rest.worker MEMORY_BYTES``.

Frames on stdin and stdout: a request's head is its name, its body the request's JSON; the answer's
head says how it went. One request at a time; the process may be killed at any time. It ends with
its stdin, and by itself once it has grown (compiled programs stay in jax's caches).
"""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec

from ...errors import Reason, TPUError
from ..processes.frames import pack, read_frame, write_frame

#: Of a request.
MAX_BODY = 16 << 20
#: Of an answer.
MAX_ANSWER = 128 << 20
#: Resident memory of a process without jax, generously.
_BARE = 256 << 20


class AnswerHead(msgspec.Struct, kw_only=True):
    """What comes before an answer's body; first of all one with `ready`."""

    ready: bool = False
    content_type: str = ""
    headers: dict[str, str] = {}
    message: str = ""
    reason: Reason | None = None
    hint: str = ""
    #: The process ends now: the next request needs another one.
    last: bool = False


def main() -> None:
    memory = int(sys.argv[1])
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints must not get between the frames
    requests = sys.stdin.buffer
    start = 0
    _say(answers, AnswerHead(ready=True))
    while True:
        try:
            name, body = read_frame(requests, MAX_BODY)
        except EOFError:
            return
        if not start and name.startswith(b"prng/"):
            # jax comes with the first request that needs it; placement and tiling don't.
            import_jax()
            start = limit_memory(memory)
        head, content = respond(name.decode(), body)
        head.last = _resident() > (start or _BARE) + memory // 2
        write_frame(answers, msgspec.json.encode(head), content)
        if head.last:
            return


def respond(name: str, body: bytes) -> tuple[AnswerHead, bytes]:
    """Head and body of the answer to one request; whatever goes wrong is in the head."""
    from .answers import answer

    try:
        found = answer(name, body)
    except TPUError as error:
        return AnswerHead(message=error.message, reason=error.reason, hint=error.hint), b""
    except MemoryError:
        return _too_large(), b""
    except Exception as error:
        if "RESOURCE_EXHAUSTED" in str(error) or "Out of memory" in str(error):
            return _too_large(), b""
        # A fault of ours: said, and the process goes on; the traceback is for the log.
        sys.excepthook(*sys.exc_info())
        message = f"jaxkit failed at {name}: {type(error).__name__}."
        return AnswerHead(message=message, reason=Reason.INTERNAL), b""
    return AnswerHead(content_type=found.content_type, headers=found.headers), found.body


def import_jax() -> None:
    """jax, its backend and a first program: what a process needs memory for in any case."""
    import jax

    jax.random.key(0).block_until_ready()


def limit_memory(memory: int) -> int:
    """Refuses this process more than *memory* bytes beyond what it has; returns what it has now."""
    try:
        import resource

        with open("/proc/self/statm") as file:
            mapped = int(file.read().split()[0]) * resource.getpagesize()
    except (ImportError, OSError):
        return 0  # not Linux: the bounds on requests alone have to do
    # Threads reserve address space that they never touch: hence the room.
    room = mapped + memory + (1 << 30)
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY or room < hard:
        resource.setrlimit(resource.RLIMIT_AS, (room, hard))
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
        hint="Ask for a smaller array.",
    )


def _say(answers: Any, head: AnswerHead) -> None:
    answers.write(pack(msgspec.json.encode(head), b""))
    answers.flush()


if __name__ == "__main__":
    main()

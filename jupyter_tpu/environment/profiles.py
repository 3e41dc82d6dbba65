"""Profiles of programs on a host, as ``on_host.profiles`` takes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ..errors import Reason, TPUError, error_for
from ..ssh.host_values import checked
from .models import RemoteHost
from .remote_call import call

#: Seconds for a host to answer, in addition to those of the trace.
ANSWER = 240.0

_PROGRAM: dict[str, Any] = {
    "modules": ("protocol", "paths", "processes", "calls", "profiles"),
    "shared": ("timeouts", "metrics.protobuf", "metrics.grpc_calls"),
}


class TracedKernel(Struct, frozen=True, kw_only=True):
    """A kernel of a host, and how its Python is found there."""

    id: str
    environment: str
    python: str  # its path; "": that of an environment of ours
    name: str = ""  # of its trace, without the suffix


class WrittenTrace(Struct, frozen=True, kw_only=True):
    """A trace that was written on a host."""

    path: str
    bytes: int
    began: float  # seconds since 1970, by the host's clock
    ended: float


class KernelMemory(Struct, frozen=True, kw_only=True):
    """A memory profile in pprof's format, and the cells (their numbers) by the names of files."""

    data: bytes
    cells: Mapping[str, int]


def _ignore(line: str) -> None: ...


async def make_folder(host: RemoteHost, folder: str) -> None:
    """Makes the folder for the traces of a run, where other hosts' are brought to."""
    await call(host, "make_folder", log=_ignore, timeout=60, folder=folder, **_PROGRAM)


async def trace(
    host: RemoteHost,
    kernels: Sequence[TracedKernel],
    port: tuple[int, str] | None,
    folder: str,
    *,
    seconds: float,
    start: float,
    lead: float,
    log: Callable[[str], None],
) -> list[WrittenTrace | TPUError]:
    """Traces kernels of a host, and then the program with a profiler server, all at once.

    port: of that server, and the name of its trace. folder: for all traces; below the home folder
    if it is relative. start: when it begins, in seconds since 1970, but after at most *lead*
    seconds: clocks differ. An error is CONFLICT where nothing uses JAX. Raises what the host does.
    """
    answers = await call(
        host,
        "trace",
        log=log,
        timeout=seconds + lead + ANSWER,
        kernels=[_payload(each) for each in kernels],
        port=port and {"port": port[0], "name": port[1]},
        folder=folder,
        seconds=seconds,
        start=start,
        lead=lead,
        **_PROGRAM,
    )
    return [_error(each) or checked(each, WrittenTrace, "trace") for each in answers]


async def profile_memory(
    host: RemoteHost, kernels: Sequence[TracedKernel]
) -> list[KernelMemory | TPUError]:
    """What fills the devices of each kernel. Raises what the host does."""
    answers = await call(
        host,
        "profile_memory",
        log=_ignore,
        timeout=ANSWER,
        kernels=[_payload(each) for each in kernels],
        **_PROGRAM,
    )
    return [_error(each) or checked(each, KernelMemory, "profile_memory") for each in answers]


def _payload(kernel: TracedKernel) -> dict[str, str]:
    return {field: getattr(kernel, field) for field in kernel.__struct_fields__}


def _error(answer: Mapping[str, Any]) -> TPUError | None:
    if "error" not in answer:
        return None
    reason, message, hint = answer["error"]
    return error_for(message, checked(reason, Reason, "profiles"), hint)

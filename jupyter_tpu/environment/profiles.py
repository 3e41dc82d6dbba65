"""Profiles of programs on a host, as ``on_host.profiles`` takes them."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from msgspec import Struct

from ..bounds import Unexpected, convert
from ..errors import Reason, TPUError, error_for
from .models import RemoteHost
from .remote_call import call

T = TypeVar("T")

#: Seconds for a host to answer, in addition to those of the trace.
ANSWER = 240.0

#: How a trace's file is called, as in `on_host.profiles`.
SUFFIX = ".xplane.pb"

_PROGRAM: dict[str, Any] = {
    "modules": ("protocol", "paths", "processes", "calls", "profiles"),
    "shared": ("metrics.protobuf", "metrics.grpc_calls"),
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
    names = [*(each.name for each in kernels), *([port[1]] if port else [])]
    paths = [posixpath.normpath(f"/{folder.removeprefix('~/')}/{name}{SUFFIX}") for name in names]
    found = [_outcome(each, WrittenTrace, host) for each in _listed(answers, len(names), host)]
    for each, path in zip(found, paths, strict=True):
        # It is brought to another host under its name there.
        if isinstance(each, WrittenTrace) and not posixpath.normpath(each.path).endswith(path):
            raise Unexpected(f"Host {host.host.worker}", f"a trace at {each.path}")
    return found


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
    listed = _listed(answers, len(kernels), host)
    return [_outcome(each, KernelMemory, host) for each in listed]


def _payload(kernel: TracedKernel) -> dict[str, str]:
    return {field: getattr(kernel, field) for field in kernel.__struct_fields__}


def _listed(answers: Any, count: int, host: RemoteHost) -> list[dict[str, Any]]:
    """One answer for each of *count* programs."""
    where = f"Host {host.host.worker}"
    listed: list[dict[str, Any]] = convert(answers, list[dict[str, Any]], where)
    if len(listed) != count:
        raise Unexpected(where, f"{len(listed)} answers for {count} programs")
    return listed


def _outcome(answer: dict[str, Any], kind: type[T], host: RemoteHost) -> T | TPUError:
    where = f"Host {host.host.worker}"
    if "error" not in answer:
        found: T = convert(answer, kind, where)
        return found
    reason, message, hint = convert(answer["error"], tuple[str, str, str], where)
    known = Reason(reason) if reason in Reason.__members__ else Reason.INTERNAL
    return error_for(message, known, hint)

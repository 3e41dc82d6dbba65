"""Profiles of programs on a host, as ``on_host.profiles.main`` takes them."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NotRequired, TypedDict, TypeVar

from msgspec import Struct

from ...errors import Reason, TPUError, error_for
from ...links.host_calls import HostError, HostProgram
from ...links.remote_host import RemoteHost
from ...on_host.profiles.main import COLLECTING, SUFFIX
from ...ssh.host_values import Count, HostPath, InvalidAnswer, Seconds, checked

T = TypeVar("T")

#: Seconds for a host to answer, in addition to those of the trace.
ANSWER_SECONDS = 240.0

__all__ = [
    "ANSWER_SECONDS", "COLLECTING", "KernelMemory", "TracedKernel", "WrittenTrace", "finish_run",
    "make_folder", "profile_memory", "trace",
]  # fmt: skip


class HostMemoryProfile(TypedDict):
    """data: in pprof's format, as base64; cells: their numbers, by the names of files. Or the
    error.
    """

    data: NotRequired[bytes]
    cells: NotRequired[dict[str, int]]
    error: NotRequired[HostError]


class HostTrace(TypedDict):
    """A trace that was written on a host, or why there is none."""

    path: NotRequired[HostPath]
    bytes: NotRequired[Count]
    began: NotRequired[Seconds]  # since 1970, by the host's clock
    ended: NotRequired[Seconds]
    error: NotRequired[HostError]


PROGRAM = HostProgram(
    "profiles.main",
    {
        "make_folder": HostPath,
        "finish_run": HostPath,
        "trace": list[HostTrace],
        "profile_memory": list[HostMemoryProfile],
    },
)


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
    await PROGRAM.call(host, "make_folder", log=_ignore, timeout=60, folder=folder)


async def finish_run(host: RemoteHost, folder: str, to: str) -> str:
    """Gives the folder with all traces of a run its name *to*, or one with a number; its path."""
    path: str = await PROGRAM.call(
        host, "finish_run", log=_ignore, timeout=60, folder=folder, to=to
    )
    return path


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
    answers = await PROGRAM.call(
        host,
        "trace",
        log=log,
        timeout=seconds + lead + ANSWER_SECONDS,
        kernels=[_payload(kernel) for kernel in kernels],
        port=port and {"port": port[0], "name": port[1]},
        folder=folder,
        seconds=seconds,
        start=start,
        lead=lead,
    )
    names = [*(kernel.name for kernel in kernels), *([port[1]] if port else [])]
    paths = [posixpath.normpath(f"/{folder.removeprefix('~/')}/{name}{SUFFIX}") for name in names]
    outcomes = [_outcome(answer, WrittenTrace) for answer in _listed(answers, len(names))]
    for outcome, path in zip(outcomes, paths, strict=True):
        # It is brought to another host under its name there.
        if isinstance(outcome, WrittenTrace) and not posixpath.normpath(outcome.path).endswith(
            path
        ):
            raise InvalidAnswer("trace", "another path")
    return outcomes


async def profile_memory(
    host: RemoteHost, kernels: Sequence[TracedKernel]
) -> list[KernelMemory | TPUError]:
    """What fills the devices of each kernel. Raises what the host does."""
    answers = await PROGRAM.call(
        host,
        "profile_memory",
        log=_ignore,
        timeout=ANSWER_SECONDS,
        kernels=[_payload(kernel) for kernel in kernels],
    )
    listed = _listed(answers, len(kernels))
    return [_outcome(answer, KernelMemory) for answer in listed]


def _payload(kernel: TracedKernel) -> dict[str, str]:
    return {field: getattr(kernel, field) for field in kernel.__struct_fields__}


def _listed(answers: Any, count: int) -> list[dict[str, Any]]:
    """One answer for each of *count* programs."""
    listed: list[dict[str, Any]] = checked(answers, list[dict[str, Any]], "profiles")
    if len(listed) != count:
        raise InvalidAnswer("profiles", f"{len(listed)} answers for {count} programs")
    return listed


def _outcome(answer: dict[str, Any], kind: type[T]) -> T | TPUError:
    if "error" not in answer:
        outcome: T = checked(answer, kind, "profiles")
        return outcome
    reason, message, hint = checked(answer["error"], HostError, "profiles")
    return error_for(message, checked(reason, Reason, "profiles"), hint)

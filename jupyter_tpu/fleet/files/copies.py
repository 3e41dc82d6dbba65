"""Copies of files to and from hosts, as operations, and how they went."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence

import msgspec

from ...cloud import Node
from ...environment import StepPlan
from ...errors import InvalidInput, Reason, TPUError, error_for
from ...wording import count, size_text
from ..core.core import Core
from ..core.host_numbers import host_numbers
from ..core.running_operation import OperationProgress
from ..models import CopyFiles, CopyResult, HostCopy, Operation
from ..models.core import validated
from .copying import FilesExist
from .spreading import copy_files


def summary(
    tpu: str, request: CopyFiles, copies: Sequence[HostCopy], seconds: float | None = None
) -> str:
    """What was copied, in a line. At least one of *copies* is done."""
    done = [copy for copy in copies if copy.state == "done"]
    first = done[0]
    # Each host got the same, unless it had some of it.
    most = max(done, key=lambda copy: copy.files)
    what = count(most.files, "file")
    amount = f", {size_text(most.bytes)}" if most.bytes else ""
    if len(copies) > 1:
        where = f"{count(len(done), 'host')} of {tpu}"
    else:
        where = first.targets[0] if request.download else f"{tpu}:{first.targets[0]}"
        if len(first.targets) > 1:
            where = where.rpartition("/")[0] + "/"
    there = first.unchanged
    more = f" {there} {'was' if there == 1 else 'were'} there already." if there else ""
    if not seconds:
        return f"Copied {what}{amount} to {where}.{more}"
    rate = most.bytes / seconds
    speed = f" ({size_text(rate)}/s)" if rate >= 1000 else ""  # else it says nothing
    return f"Copied {what}{amount} to {where} in {seconds:.1f} s{speed}.{more}"


def failure_of(tpu: str, copies: Sequence[HostCopy]) -> TPUError | None:
    """What hosts failed with, or that files were left out; None if all was copied."""
    failed = [(copy.host, copy.problem) for copy in copies if copy.problem is not None]
    if failed:
        named = " ".join(f"host {host}: {problem.message}" for host, problem in failed)
        return error_for(
            f"Not copied to {len(failed)} of {count(len(copies), 'host')} of {tpu}: {named}",
            failed[0][1].reason,
            "Copy again for these hosts.",
        )
    left_out = [problem for copy in copies for problem in copy.problems]
    number = sum(copy.problem_count for copy in copies)
    if not number:
        return None
    first = f" {left_out[0].path}: {left_out[0].message}" if left_out else ""
    return TPUError(
        f"{count(number, 'file')} {'was' if number == 1 else 'were'} not copied.{first}",
        Reason.INTERRUPTED,
    )


_COPY = StepPlan("copy", "Copy the files", 3, all_hosts=False)
_SPREAD = StepPlan("spread", "Send them on from host to host", 1)


class CopyService:
    """Copies, as a :class:`~jupyter_tpu.fleet.api.CopiesAPI`; several may run at the same time."""

    def __init__(self, core: Core) -> None:
        self._finder = core.finder
        self._links = core.links
        self._runner = core.runner

    async def start(self, ref: str, request: CopyFiles) -> Operation:
        request = _checked(validated(request))
        node = await self._finder.find_ready(ref)
        hosts = host_numbers(request.hosts, len(node.endpoints), node.name.node)
        if request.download and len(hosts) > 1:
            raise InvalidInput(
                "Files of several hosts would have the same names here.", "Name one host."
            )

        async def work(progress: OperationProgress) -> None:
            await self._copy(node, hosts, request, progress)

        return await self._runner.start(self._runner.new_record("copy", node.name), work)

    async def _copy(
        self, node: Node, hosts: list[int], request: CopyFiles, progress: OperationProgress
    ) -> None:
        loop = asyncio.get_running_loop()
        several = len(hosts) > 1
        progress.plan([_COPY, _SPREAD] if several else [_COPY], len(hosts), measured=True)
        progress.begin("copy")

        def show(done: int, total: int) -> None:
            progress.part("copy", done / total if total else 1.0)
            progress.set_message(f"{_COPY.title}: {size_text(done)} of {size_text(total)}")

        def report(done: int, total: int) -> None:
            loop.call_soon_threadsafe(show, done, total)

        def ended(copy: HostCopy) -> None:
            if not several:
                return
            if progress.operation.steps[0].state == "running" and copy.state == "done":
                progress.done("copy")
                progress.begin("spread")
            progress.host_done("spread")
            if copy.problem is not None:
                progress.log(f"Host {copy.host}: {copy.problem.message}")

        result = CopyResult(request=request)
        try:
            result.copies = await copy_files(
                self._links,
                node,
                hosts,
                request,
                report=report,
                ended=ended,
            )
        except FilesExist as error:
            result.existing, result.existing_count = error.names, error.count
            raise
        finally:
            progress.operation.result = msgspec.to_builtins(result)
        for step in ("copy", "spread") if several else ("copy",):
            progress.done(step)
        if any(copy.state == "done" for copy in result.copies):
            progress.log(summary(node.name.node, request, result.copies))
        failure = failure_of(node.name.node, result.copies)
        if failure is not None:
            raise failure


def _checked(request: CopyFiles) -> CopyFiles:
    """With full paths of this computer. Raises INVALID for what can't be a path."""
    for path in (*request.sources, request.destination):
        if "\0" in path:
            raise InvalidInput("A path has a NUL character.")
    if not all(request.sources):
        raise InvalidInput("A path is empty.", "Name the file or folder.")
    if request.download:
        here = _local(request.destination or "~")
        return msgspec.structs.replace(request, destination=here)
    return msgspec.structs.replace(
        request,
        sources=[_local(path) for path in request.sources],
        destination=request.destination or "~",
    )


def _local(path: str) -> str:
    full = os.path.expanduser(path)
    if not os.path.isabs(full):
        raise InvalidInput(f"{path} is not a full path.", "A path begins with / or ~.")
    return full

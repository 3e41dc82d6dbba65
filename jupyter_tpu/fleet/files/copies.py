"""Copies of files to and from hosts, as operations."""

from __future__ import annotations

import asyncio
import os

import msgspec

from ...cloud import Node
from ...errors import InvalidInput
from ...files.copy.copying import FilesExist
from ...progress import StepPlan
from ...wording import size_text
from ..core.core import Core
from ..core.host_numbers import host_numbers
from ..core.known_operations import OperationProgress
from ..models import CopyFiles, CopyResult, HostCopy, Operation
from ..models.core import validated
from .copy_requests import copy_files, failure_of, summary

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

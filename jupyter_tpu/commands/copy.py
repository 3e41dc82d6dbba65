"""Copies files to hosts and from them as a command line says."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InvalidInput, Reason, TPUError
from .nodes import find_node

if TYPE_CHECKING:
    from ..cloud import Target
    from ..fleet.models import CopyFiles, HostCopy, Operation
    from .session import Session

#: NAME:PATH, [ZONE/]NAME of a TPU. What begins with . or / is a path of this computer.
_REMOTE = re.compile(r"((?:[a-z][-a-z0-9]*[/~])?[a-z][-a-z0-9]*):(.*)", re.DOTALL)

#: Called with the bytes that are there and all bytes, from any thread.
Report = Callable[[int, int], None]


class Copy(NamedTuple):
    """What a command line asks for."""

    tpu: str
    to_tpu: bool
    sources: list[str]
    destination: str

    def request(self, **fields: Any) -> CopyFiles:
        """The same for the fleet, with other *fields* of it."""
        from ..fleet.models import CopyFiles

        return CopyFiles(
            sources=self.sources,
            destination=self.destination,
            download=not self.to_tpu,
            **fields,
        )


def parse(words: Sequence[str], zone: str | None = None) -> Copy:
    """The copy that SRC... NAME:DST, or NAME:SRC... DST, means; raises INVALID.

    >>> parse(["a b", "my-tpu:"])
    Copy(tpu='my-tpu', to_tpu=True, sources=['a b'], destination='')
    """
    if len(words) < 2:
        raise InvalidInput(
            "Nothing to copy to.", "Write SRC... NAME:DST, or NAME:SRC... DST with `.` for here."
        )
    *sources, destination = map(_remote, words)
    tpus = {tpu for tpu, _ in sources}
    to_tpu = bool(destination[0])
    if to_tpu == bool(tpus - {""}) or len(tpus) > 1:
        raise InvalidInput(
            "A copy is from this computer to one TPU, or from one TPU to this computer.",
            "Write NAME: before the path on the TPU, such as my-tpu:data, and ./ before a local "
            "path that has a colon.",
        )
    name = destination[0] or tpus.pop()
    if zone and "/" not in name and "~" not in name:
        name = f"{zone}~{name}"
    return Copy(name, to_tpu, [path for _, path in sources], destination[1])


def _remote(word: str) -> tuple[str, str]:
    """The TPU and the path; "" for this computer."""
    match = _REMOTE.fullmatch(word)
    if match is None:
        if not word:
            raise InvalidInput("A path is empty.", "Write `.` for the current folder.")
        return "", word
    return match[1], match[2] or "~"


async def copy_files(
    tpu: str,
    request: CopyFiles,
    target: Target,
    *,
    report: Report,
    ended: Callable[[HostCopy], None],
) -> list[HostCopy]:
    """Copies; returns each host's part. On the core thread.

    Raises `FilesExist`, and what `copying` raises.
    """
    from ..fleet.core.host_numbers import host_numbers
    from ..fleet.files.copy_requests import copy_files
    from ..links import default_links

    node, cloud = await find_node(tpu, target)
    if not node.endpoints:
        state = f"The TPU {node.name.node} is {node.state}."
        raise TPUError(state, Reason.CONFLICT, "This needs a READY TPU.")
    hosts = host_numbers(request.hosts, len(node.endpoints), node.name.node)
    if request.download and len(hosts) > 1:
        raise InvalidInput(
            "Files of several hosts would have the same names here.",
            "Give the number of one host, such as --worker 0.",
        )
    links = default_links(cloud.target)
    links.use_one_connection()
    await links.prepare(node)
    try:
        return await copy_files(links, node, hosts, request, report=report, ended=ended)
    finally:
        await links.close()


def copy_in_session(session: Session, copy: Copy, fields: dict[str, Any]) -> Operation:
    """Starts the copy as an operation of the fleet; it continues when this process ends."""
    request = copy.request(**fields)
    if copy.to_tpu:
        request.sources = [_full(path) for path in request.sources]
    else:
        request.destination = _full(request.destination)
    return session.call(session.fleet.copies.start(copy.tpu, request))


def _full(path: str) -> str:
    """As another process takes it. A / at its end means a folder."""
    full = os.path.abspath(os.path.expanduser(path))
    return full + "/" if path.endswith("/") and full != "/" else full

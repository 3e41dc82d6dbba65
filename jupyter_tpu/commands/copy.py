"""Copies files to hosts and from them as a command line says."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..errors import InvalidInput, Reason, TPUError
from .nodes import find_node
from .tables import size

if TYPE_CHECKING:
    from ..fleet.models import HostCopy

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
    drive = os.name == "nt" and re.match(r"[A-Za-z]:[\\/]", word)
    found = None if drive else _REMOTE.fullmatch(word)
    if found is None:
        if not word:
            raise InvalidInput("A path is empty.", "Write `.` for the current folder.")
        return "", word
    return found[1], found[2] or "~"


async def copy_files(
    wanted: Copy,
    worker: int | str,
    *,
    overwrite: bool,
    report: Report,
    ended: Callable[[HostCopy], None],
) -> list[HostCopy]:
    """Copies; returns each host's part. On the core thread.

    worker: a host's number, or "all". Raises `FilesExist`, and what `copying` raises.
    """
    from ..fleet.forwarding.ports import check_host
    from ..fleet.hosts.copying import download
    from ..fleet.hosts.spreading import upload_to_hosts
    from ..links import HostName, default_links

    node, cloud = await find_node(wanted.tpu)
    if not node.endpoints:
        raise TPUError(
            f"{node.name.node} is {node.state}.", Reason.CONFLICT, "Files are on READY TPUs."
        )
    hosts = list(range(len(node.endpoints))) if isinstance(worker, str) else [worker]
    check_host(node, hosts[0])
    links = default_links(cloud.target)
    try:
        if wanted.to_tpu:
            return await upload_to_hosts(
                links,
                node,
                hosts,
                wanted.sources,
                wanted.destination,
                overwrite=overwrite,
                report=report,
                ended=ended,
            )
        if len(hosts) > 1:
            raise InvalidInput(
                "Files of several hosts would have the same names here.",
                "Give the number of one host, such as --worker 0.",
            )
        link = links.get(HostName(node.name, hosts[0]))
        return [
            await download(
                link, wanted.sources, wanted.destination, overwrite=overwrite, report=report
            )
        ]
    finally:
        await links.close()


def summary(wanted: Copy, copies: Sequence[HostCopy], seconds: float) -> str:
    """What was copied, in a line."""
    done = [copy for copy in copies if copy.state == "done"]
    first = done[0]
    # Each host got the same, unless it had some of it.
    most = max(done, key=lambda copy: copy.files)
    what = "1 file" if most.files == 1 else f"{most.files} files"
    amount = f", {size(most.bytes)}" if most.bytes else ""
    if len(copies) > 1:
        where = f"{len(done)} hosts of {wanted.tpu}"
    else:
        where = f"{wanted.tpu}:{first.targets[0]}" if wanted.to_tpu else first.targets[0]
        if len(first.targets) > 1:
            where = where.rpartition("/")[0] + "/"
    there = first.unchanged
    more = f" {there} {'was' if there == 1 else 'were'} there already." if there else ""
    rate = f" ({size(round(most.bytes / seconds))}/s)" if most.bytes and seconds > 0 else ""
    return f"Copied {what}{amount} to {where} in {seconds:.1f} s{rate}.{more}"


def raise_failures(wanted: Copy, copies: Sequence[HostCopy]) -> None:
    """Raises what hosts failed with, and that files were left out."""
    failed = [copy for copy in copies if copy.problem is not None]
    if failed:
        named = "; ".join(
            f"host {copy.host}: {copy.problem.message}" for copy in failed if copy.problem
        )
        error = failed[0].problem
        assert error is not None
        raise TPUError(
            f"Not copied to {len(failed)} of {len(copies)} hosts of {wanted.tpu}: {named}",
            error.reason,
            "Copy again for these hosts.",
        )
    left_out = sum(copy.problem_count for copy in copies)
    if left_out:
        raise TPUError(
            f"{left_out} file{' was' if left_out == 1 else 's were'} not copied.",
            Reason.INTERRUPTED,
        )

"""A request to copy files: carried out, and what became of it in words."""

from __future__ import annotations

from collections.abc import Sequence

from ...cloud import Node
from ...errors import Reason, TPUError, error_for
from ...files.copy import HostCopy
from ...files.copy.copying import Report, download
from ...files.copy.spreading import Ended, upload_to_hosts
from ...links import HostName, Links
from ...wording import count, size_text
from ..models import CopyFiles


async def copy_files(
    links: Links,
    node: Node,
    hosts: Sequence[int],
    request: CopyFiles,
    *,
    report: Report,
    ended: Ended,
) -> list[HostCopy]:
    """Copies as *request* says, to *hosts* or from the first of them; returns each host's part."""
    if request.download:
        link = links.get(HostName(node.name, hosts[0]))
        return [
            await download(
                link,
                request.sources,
                request.destination,
                overwrite=request.overwrite,
                make_folder=request.make_folder,
                agents_folder=request.agents_folder,
                report=report,
            )
        ]
    return await upload_to_hosts(
        links,
        node,
        hosts,
        request.sources,
        request.destination,
        overwrite=request.overwrite,
        make_folder=request.make_folder,
        agents_folder=request.agents_folder,
        report=report,
        ended=ended,
    )


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

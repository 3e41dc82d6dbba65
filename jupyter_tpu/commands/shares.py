"""Shared folders in words: what will be done on each host, and how each has the folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .tables import table

if TYPE_CHECKING:
    from ..fleet.models import SharedFolders, ShareResult


def plan_text(result: ShareResult) -> str:
    """What would be done: hosts that do the same are listed together."""
    groups: dict[str, list[str]] = {}
    for host in result.hosts:
        lines = []
        if host.problem is not None:
            lines.append(f"  Not possible: {host.problem.message} {host.problem.hint}".rstrip())
        for step in host.steps:
            lines.append(f"  {step.text}")
            lines += [f"    | {line}" for line in step.content.splitlines()]
        if host.steps or host.problem:
            groups.setdefault("\n".join(lines), []).append(f"host {host.host} of {host.tpu}")
    return "\n".join(f"On {', '.join(hosts)}:\n{text}" for text, hosts in groups.items())


def shares_text(shared: SharedFolders) -> str:
    """A table of folders and hosts."""
    rows = [
        (
            folder.path,
            host.tpu,
            str(host.host),
            "on its disk"
            if host.role == "server" and host.mounted
            else "mounted"
            if host.mounted
            else host.problem,
        )
        for folder in shared.folders
        for host in folder.hosts
    ]
    if not rows:
        return (
            "The hosts that answered share no folder."
            if shared.problems
            else "No folder is shared."
        )
    return table(("SHARED FOLDER", "TPU", "HOST", "STATE"), rows)

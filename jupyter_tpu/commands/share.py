"""``jupyter tpu share``: a folder of host 0 that the other hosts have, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..errors import InvalidInput, Reason, TPUError
from ..terminal.field_options import options_of
from ..terminal.grammar import argument, command, examples
from ..terminal.parameters import project_option
from ..terminal.printing import json_option, note, print_json, print_result
from ..terminal.questions import confirm, yes_option
from ..terminal.session import FleetSession, open_session
from ..terminal.tables import table
from ..terminal.waiting import finish, progress_stream
from ..wording import count

if TYPE_CHECKING:
    from ..fleet.models import SharedFolders, ShareFolder, ShareResult


@command(
    "share",
    epilog=examples(
        "jupyter tpu share my-pod                      ~/shared of host 0, on all its hosts",
        "jupyter tpu share my-pod:data --with my-tpu   on the hosts of my-tpu, too",
        "jupyter tpu share my-pod --list",
        "jupyter tpu share my-pod:data --remove",
    ),
)
@argument(
    "target",
    metavar="NAME[:DIR]",
    help="The TPU whose host 0 has the folder. DIR is relative to its home folder, or absolute; "
    "without it: shared.",
)
@options_of("ShareFolder", "tpus", "remove", "dry_run")
@click.option("--list", "as_list", is_flag=True, help="Show which hosts have which folder.")
@yes_option("Do not ask.")
@project_option
@json_option
def share(
    target: str,
    fields: dict[str, Any],
    as_list: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Share a folder of host 0 with the other hosts of a TPU, by NFS.

    The hosts mount it at the same path, also after a restart. Only their internal addresses may
    mount it. They work in it as your user, so the folder needs no rights for others. You see what
    changes on each host, and are asked.

    Emulated hosts can only show what would be done: their kernel has no NFS.
    """
    from ..fleet.models import ShareFolder

    name, colon, folder = target.partition(":")
    dry_run = fields.pop("dry_run", False)
    request = ShareFolder(**fields, dry_run=True)
    if folder:
        request.folder = folder
    elif colon or not name:
        raise InvalidInput(f"{target!r} does not name a folder.", "Write NAME or NAME:DIR.")
    with open_session() as session:
        if as_list:
            shared_folders = session.call(session.fleet.shares.list(name))
            for problem in shared_folders.problems:
                note(problem)
            print_result(shared_folders, shares_text(shared_folders), as_json)
            return
        result = _change(session, name, request, as_json=as_json)
        if not dry_run:
            if not as_json:
                print(plan_text(result), flush=True)
            for host in result.hosts:
                if host.problem is not None:
                    raise TPUError(
                        f"{result.path} can't be shared. Host {host.host} of {host.tpu}: "
                        f"{host.problem.message} Nothing was changed.",
                        Reason.CONFLICT,
                        host.problem.hint,
                    )
            if not yes:
                confirm("Do this?", "Add --yes to do it without asking.")
            request.dry_run = False
            result = _change(session, name, request, as_json=as_json)
    if as_json:
        print_json(result)
    elif dry_run:
        print(plan_text(result))
    else:
        where = f"{result.path} ({count(len(result.hosts), 'host')})"
        print(f"No longer shared: {where}" if request.remove else f"Shared: {where}")


def _change(
    session: FleetSession, name: str, request: ShareFolder, *, as_json: bool
) -> ShareResult:
    import msgspec

    from ..fleet.models import ShareResult

    operation = session.call(session.fleet.shares.start(name, request))
    ended = finish(session, operation, progress_stream(as_json))
    return msgspec.convert(ended.result, ShareResult)


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

"""``jupyter tpu home``: folders of a TPU's home, kept in a bucket for the next TPU of the name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ..terminal.field_options import options_of
from ..terminal.grammar import Group, argument, examples
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option, list_options, print_list, print_result
from ..terminal.questions import confirm, confirm_name_option, confirmed_names, yes_option
from ..terminal.session import open_session, tpu_ref
from ..terminal.tables import size, table
from ..terminal.times import local_time
from ..terminal.waiting import finish, progress_stream
from ..wording import count

if TYPE_CHECKING:
    from ..fleet.models import Home, Operation


@click.group("home", cls=Group, aliases={"delete": "forget", "remove": "off"})
def home() -> None:
    """Keep folders of a TPU's home in a bucket: the next TPU of the name gets them.

    Host 0 saves them when they have not changed for a while, and before the TPU is stopped or
    deleted.
    """


@home.command(
    "set",
    epilog=examples(
        "jupyter tpu home set my-tpu --in gs://my-bucket/homes",
        "jupyter tpu home set my-tpu --in gs://my-bucket/homes .bashrc .config checkpoints",
    ),
)
@tpu_argument()
@argument(
    "folders",
    metavar="[FOLDER]...",
    nargs=-1,
    help="Folders and files in the home folder.  [default: settings of shells and tools, and "
    "checkpoints]",
)
@options_of("SetHome", "place", "max_gb", "seconds")
@confirm_name_option
@json_option
def set_home(
    name: str,
    folders: tuple[str, ...],
    fields: dict[str, Any],
    confirmed: tuple[str, ...],
    as_json: bool,
) -> None:
    """Choose which folders are kept, and where. A copy that is there for this name is restored.

    Keys, passwords and tokens are left out. Google bills what is stored in a bucket.
    """
    from ..fleet.models import SetHome

    with open_session() as fleet:
        tpu = fleet.call(fleet.fleet.tpu(name))
        typed = tpu.name if tpu.name in confirmed_names([tpu], confirmed) else ""
        request = SetHome(folders=list(folders), confirm_name=typed, **fields)
        chosen = fleet.call(fleet.fleet.homes.set(tpu_ref(tpu), request))
    print_result(chosen, home_text(chosen), as_json)


def home_text(chosen: Home) -> str:
    """What is kept, where and when, and what became of it last."""
    setting = chosen.setting
    folders = ", ".join(f"~/{folder}" for folder in setting.folders)
    lines = [
        f"These folders of {chosen.tpu} are kept in {setting.place}: {folders}",
        f"They are saved when no file has changed for {setting.seconds:g} s, and before the TPU "
        "ends.",
        f"At most {setting.max_gb:g} GB are saved.",
    ]
    last = chosen.last
    if last is not None and last.state == "restored":
        files = count(last.files, "file")
        lines.append(f"Restored {files} ({size(last.size)}), saved {local_time(last.saved)}.")
        if last.kept_count:
            files = count(last.kept_count, "file")
            lines.append(f"{files} on the TPU stay, since they are newer: {', '.join(last.kept)}")
        if last.replaced_count:
            files = count(last.replaced_count, "file")
            lines.append(f"{files} were replaced: {', '.join(last.replaced)}")
    if not chosen.there:
        lines.append("They are restored and saved when the TPU is connected.")
    return "\n".join(lines)


@home.command("list", epilog=examples("jupyter tpu home list"))
@list_options
def list_homes() -> None:
    """List what is kept, also of TPUs that are gone."""
    with open_session() as fleet:
        homes = fleet.call(fleet.fleet.homes.all())
    print_list(homes, _table)


def _table(homes: Sequence[Home]) -> str:
    if not homes:
        return "No home folders are kept. Choose some: jupyter tpu home set NAME --in gs://BUCKET/FOLDER"
    rows = [
        (
            one.tpu,
            local_time(one.saved) if one.saved else "-",
            str(one.files),
            size(one.size),
            one.setting.place,
            _state(one),
        )
        for one in homes
    ]
    return table(("NAME", "SAVED", "FILES", "SIZE", "PLACE", ""), rows)


def _state(one: Home) -> str:
    if one.last is not None and one.last.problem is not None:
        return one.last.problem.message
    if one.left_out_count:
        names = ", ".join(left.path for left in one.left_out[:3])
        return f"without {names}" + (" …" if one.left_out_count > 3 else "")
    return ""


@home.command("save", epilog=examples("jupyter tpu home save my-tpu"))
@tpu_argument()
@json_option
def save(name: str, as_json: bool) -> None:
    """Save the folders now. What has not changed is not copied again."""
    with open_session() as fleet:
        _finish(fleet, fleet.call(fleet.fleet.homes.save(name)), as_json)


@home.command("restore", epilog=examples("jupyter tpu home restore my-tpu"))
@tpu_argument()
@json_option
def restore(name: str, as_json: bool) -> None:
    """Restore the folders. Files that are newer on the TPU stay."""
    with open_session() as fleet:
        _finish(fleet, fleet.call(fleet.fleet.homes.restore(name)), as_json)


def _finish(fleet: Any, operation: Operation, as_json: bool) -> None:
    from msgspec import convert

    from ..fleet.models import HomeOutcome

    ended = finish(fleet, operation, progress_stream(as_json))
    print_result(convert(ended.result, HomeOutcome), "\n".join(ended.log), as_json)


@home.command("off", epilog=examples("jupyter tpu home off my-tpu"))
@tpu_argument()
def off(name: str) -> None:
    """Do not keep them any more. What is in the bucket stays. The TPU may be gone."""
    with open_session() as fleet:
        fleet.call(fleet.fleet.homes.remove(name))
    print(f"The home folders of {name} are not saved any more. What is in the bucket stays.")


@home.command("forget", epilog=examples("jupyter tpu home forget my-tpu"))
@tpu_argument()
@yes_option("Delete them without asking.")
def forget(name: str, yes: bool) -> None:
    """Delete what is in the bucket, and do not keep them any more."""
    with open_session() as fleet:
        if not yes:
            known = next(
                (one for one in fleet.call(fleet.fleet.homes.all()) if one.tpu == name), None
            )
            where = f" ({size(known.size)}) in {known.setting.place}" if known is not None else ""
            confirm(
                f"Delete the home folders of {name}{where}?",
                "Add --yes to delete them without asking.",
            )
        fleet.call(fleet.fleet.homes.forget(name))
    print(f"Deleted the home folders of {name} in the bucket.")

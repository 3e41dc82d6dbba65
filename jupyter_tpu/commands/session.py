"""``jupyter tpu session``: the variables of kernels, kept where they outlive them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..errors import Reason, TPUError
from ..terminal.field_options import options_of
from ..terminal.grammar import Group, argument, examples
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option, list_options, note, print_list, print_result
from ..terminal.questions import confirm, confirm_name_option, confirmed_names, yes_option
from ..terminal.session import open_session, tpu_ref
from ..terminal.tables import size, table
from ..terminal.times import local_time
from ..terminal.waiting import finish, progress_stream
from ..wording import count, phrase
from .kernel import find_kernel
from .losses import kernels_now

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..fleet.models import Bucket, Operation, Session, SessionOutcome, SessionSetting

_session_argument = argument("session", metavar="SESSION", help="Name or ID of a session.")
_kernel_option = click.option(
    "--kernel",
    metavar="KERNEL",
    help="Kernel ID, or its unique prefix.  [default: the only one that runs there]",
)


@click.group("session", cls=Group, aliases={"delete": "forget", "remove": "forget"})
def session() -> None:
    """Keep the variables of kernels when their TPU is stopped, preempted or deleted."""


@session.command(
    "list", epilog=examples("jupyter tpu session list", "jupyter tpu session list my-tpu")
)
@tpu_argument(required=False)
@list_options
def list_sessions(name: str | None) -> None:
    """List the sessions that are known here, or all that a TPU can restore."""
    from ..fleet.models import ListQuery

    with open_session() as fleet:
        if name is None:
            sessions = session_call_all(fleet)
        else:
            listed = fleet.call(fleet.fleet.sessions.list(name, ListQuery(fresh=True)))
            sessions = listed.sessions
            for problem in listed.problems:
                note(f"{problem.message} {problem.hint}".strip())
    print_list(sessions, _table)


def session_call_all(fleet: Any) -> Sequence[Session]:
    sessions: Sequence[Session] = fleet.call(fleet.fleet.sessions.all())
    return sessions


def _table(sessions: Sequence[Session]) -> str:
    if not sessions:
        return "There are no sessions. Save one: jupyter tpu session save NAME"
    rows = [
        (
            one.name,
            local_time(one.saved) if one.saved else "-",
            str(one.variables),
            size(one.size),
            f"{one.tpu}{' (emulated)' if one.emulated else ''}",
            _place(one.place) or "disk of the host",
            local_time(one.expires) if one.expires else "never",
            one.problem.message if one.problem is not None else _incomplete(one),
        )
        for one in sessions
    ]
    return table(("NAME", "SAVED", "VARIABLES", "SIZE", "TPU", "PLACE", "EXPIRES", ""), rows)


def _place(place: str) -> str:
    return phrase("this computer") if place == "computer" else place


def _incomplete(one: Session) -> str:
    if not one.missing_count:
        return ""
    names = ", ".join(missing.name for missing in one.missing[:3])
    return f"without {names}" + (" …" if one.missing_count > 3 else "")


@session.command(
    "auto",
    epilog=examples(
        "jupyter tpu session auto my-tpu --in gs://my-bucket/sessions",
        "jupyter tpu session auto my-tpu --in computer --max-gb 5",
        "jupyter tpu session auto my-tpu --manual",
    ),
)
@tpu_argument()
@options_of("SetSessions", "place", "max_gb", "seconds", "keep_days")
@click.option(
    "--manual",
    is_flag=True,
    help="Do not save after cells: only when you ask for it, and before the TPU ends.",
)
@confirm_name_option
@json_option
def auto(
    name: str, fields: dict[str, Any], manual: bool, confirmed: tuple[str, ...], as_json: bool
) -> None:
    """Save the variables of a TPU's kernels automatically, for new and running kernels.

    Without --in, they are on the disk of the host: it outlives a stop, but not a preemption or a
    delete. Google bills what is stored in a bucket.
    """
    from ..fleet.models import SetSessions

    with open_session() as fleet:
        tpu = fleet.call(fleet.fleet.tpu(name))
        typed = tpu.name if tpu.name in confirmed_names([tpu], confirmed) else ""
        request = SetSessions(automatic=not manual, confirm_name=typed, **fields)
        setting = fleet.call(fleet.fleet.sessions.set(tpu_ref(tpu), request))
    print_result(setting, setting_text(name, setting), as_json)


def setting_text(name: str, setting: SessionSetting) -> str:
    """Where and when the kernels of a TPU are saved."""
    here = setting.place == "computer"
    lines = [
        f"The variables of kernels are saved on the disk of {name}, and copied to this computer."
        if here
        else f"The variables of kernels are saved in {setting.place}."
        if setting.place
        else f"The variables of kernels are saved on the disk of {name}.",
        f"They are saved when no cell has run for {setting.seconds:g} s, and before the TPU ends."
        if setting.automatic
        else "They are saved when you ask for it, and before the TPU ends.",
        f"A session that was not saved for {count(setting.keep_days, 'day')} is deleted.",
    ]
    if here:
        lines.append(
            "A Jupyter server copies them while the TPU is connected, if a session has at most "
            f"{setting.max_gb:g} GB."
        )
    elif not setting.place:
        lines.append(
            "The disk is lost when the TPU is preempted or deleted. To keep sessions then: "
            "--in gs://BUCKET, or --in computer"
        )
    return "\n".join(lines)


@session.command(
    "buckets",
    epilog=examples("jupyter tpu session buckets", "jupyter tpu session buckets my-tpu"),
)
@tpu_argument(required=False)
@list_options
def buckets(name: str | None) -> None:
    """List the project's buckets for --in, those in the TPU's region first."""
    with open_session() as fleet:
        zone = fleet.call(fleet.fleet.tpu(name)).zone if name is not None else "-"
        listed = fleet.call(fleet.fleet.sessions.buckets(zone))
    if listed.problem is not None:
        raise listed.problem.to_error()
    print_list(listed.buckets, _bucket_table)


def _bucket_table(buckets: Sequence[Bucket]) -> str:
    if not buckets:
        return "The project has no buckets. Create one: gcloud storage buckets create"
    rows = [(f"gs://{one.name}", one.location, one.warning) for one in buckets]
    return table(("BUCKET", "LOCATION", ""), rows)


@session.command("off", epilog=examples("jupyter tpu session off my-tpu"))
@tpu_argument()
def off(name: str) -> None:
    """Do not save the kernels of a TPU automatically. Its sessions stay."""
    with open_session() as fleet:
        fleet.call(fleet.fleet.sessions.remove(name))
    print(f"The kernels of {name} are not saved automatically. Its sessions stay.")


@session.command(
    "save",
    epilog=examples(
        "jupyter tpu session save my-tpu",
        "jupyter tpu session save my-tpu --kernel 1b671a64 --in gs://my-bucket/sessions",
    ),
)
@tpu_argument()
@click.option("--kernel", metavar="KERNEL", help="Kernel ID, or its prefix.  [default: all]")
@options_of("SaveSessions", "name", "place", "max_gb", "overwrite", "seconds")
@json_option
def save(name: str, kernel: str | None, fields: dict[str, Any], as_json: bool) -> None:
    """Save the variables of the kernels of a TPU, between two cells."""
    from ..fleet.models import SaveSessions

    with open_session() as fleet:
        ids = [find_kernel(kernels_now(fleet, name), kernel, name).id] if kernel else []
        request = SaveSessions(kernels=ids, **fields)
        _finish(fleet, fleet.call(fleet.fleet.sessions.save(name, request)), as_json)


@session.command("restore", epilog=examples("jupyter tpu session restore my-tpu train"))
@tpu_argument()
@_session_argument
@_kernel_option
@options_of("RestoreSession", "overwrite", "seconds")
@json_option
def restore(
    name: str, session: str, kernel: str | None, fields: dict[str, Any], as_json: bool
) -> None:
    """Put the variables of a session into a running kernel of a TPU."""
    from ..fleet.models import ListQuery, RestoreSession

    with open_session() as fleet:
        listed = fleet.call(fleet.fleet.sessions.list(name, ListQuery(fresh=True)))
        target = _find(listed.sessions, session)
        request = RestoreSession(kernel=_only_kernel(fleet, name, kernel), **fields)
        operation = fleet.call(fleet.fleet.sessions.restore(name, target.id, request))
        _finish(fleet, operation, as_json)


@session.command("restart", epilog=examples("jupyter tpu session restart my-tpu"))
@tpu_argument()
@_kernel_option
@json_option
def restart(name: str, kernel: str | None, as_json: bool) -> None:
    """Restart a kernel and keep its variables."""
    with open_session() as fleet:
        id = _only_kernel(fleet, name, kernel)
        _finish(fleet, fleet.call(fleet.fleet.sessions.restart(name, id)), as_json)


@session.command("forget", epilog=examples("jupyter tpu session forget train"))
@_session_argument
@click.option(
    "--tpu",
    metavar="NAME",
    help="The TPU that deletes it. Any TPU can delete what is in a bucket that it may write to.  "
    "[default: the one that has saved it]",
)
@yes_option("Delete it without asking.")
def forget(session: str, tpu: str | None, yes: bool) -> None:
    """Delete a session, and all that is stored of it."""
    with open_session() as fleet:
        target = _find(session_call_all(fleet), session)
        ref = tpu or (f"{target.zone}~{target.tpu}" if target.zone else target.tpu)
        where = _place(target.place) or phrase(f"the disk of {target.tpu}")
        if not yes:
            saved = f", saved {local_time(target.saved)}" if target.saved else ""
            confirm(
                f"Delete the session {target.name} ({count(target.variables, 'variable')}{saved}) "
                f"from {where}?",
                "Add --yes to delete it without asking.",
            )
        try:
            fleet.call(fleet.fleet.sessions.forget(ref, target.id))
        except TPUError as error:
            if tpu is None and target.place and error.reason is Reason.NOT_FOUND:
                raise TPUError(
                    f"{target.tpu}, which has saved it, does not exist any more.",
                    Reason.NOT_FOUND,
                    "Name another TPU that may write to the bucket: --tpu NAME",
                ) from None
            raise
    print(f"Deleted the session {target.name} from {where}.")


def _find(sessions: Sequence[Session], name: str) -> Session:
    """The session of that ID or name; raises NOT_FOUND, or CONFLICT for several."""
    matching = [one for one in sessions if one.id == name]
    matching = matching or [one for one in sessions if one.name == name]
    if len(matching) == 1:
        return matching[0]
    hint = "`jupyter tpu session list --json` shows their IDs."
    if matching:
        raise TPUError(
            f"{len(matching)} sessions have the name {name}: "
            + ", ".join(f"{one.id} ({one.place or one.tpu})" for one in matching)
            + ".",
            Reason.CONFLICT,
            "Give the ID instead of the name.",
        )
    names = ", ".join(one.name for one in sessions) or "none"
    raise TPUError(f"There is no session {name}. There are: {names}.", Reason.NOT_FOUND, hint)


def _only_kernel(fleet: Any, name: str, kernel: str | None) -> str:
    kernels = [one for one in kernels_now(fleet, name) if one.state != "dead"]
    if kernel:
        return find_kernel(kernels, kernel, name).id
    if len(kernels) == 1:
        return kernels[0].id
    raise TPUError(
        f"{count(len(kernels), 'kernel')} run on {name}.",
        Reason.INVALID,
        f"Choose one with --kernel: jupyter tpu kernel list {name}",
    )


def _finish(fleet: Any, operation: Operation, as_json: bool) -> None:
    from msgspec import convert

    from ..fleet.models import SessionResult

    ended = finish(fleet, operation, progress_stream(as_json))
    result = convert(ended.result or {"kernels": []}, SessionResult)
    text = "\n".join(line for outcome in result.kernels for line in _lines(outcome))
    print_result(result, text, as_json)


def _lines(outcome: SessionOutcome) -> list[str]:
    who = outcome.notebook or outcome.kernel
    variables = count(outcome.variables, "variable")
    if outcome.state == "saved":
        where = _place(outcome.place) or phrase("the disk of the host")
        lines = [f"Saved {variables} of {who} as {outcome.name} in: {where}"]
    elif outcome.state == "restored":
        lines = [f"Restored {variables} of {outcome.name} in {who}."]
    elif outcome.state == "empty":
        lines = [f"{who} has no variables."]
    else:
        lines = [outcome.problem.message if outcome.problem else f"{who}: {outcome.state}"]
    lines += [f"Without {missing.name}: {missing.why}" for missing in outcome.missing]
    return lines + outcome.notes

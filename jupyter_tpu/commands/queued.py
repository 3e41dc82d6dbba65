"""``jupyter tpu queued``: requests that wait at Google until there is capacity for their TPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ..terminal.field_options import options_of
from ..terminal.grammar import Group, argument, examples
from ..terminal.node_options import node_options, type_and_zone_options
from ..terminal.parameters import project_option, tpu_argument
from ..terminal.printing import (
    json_option,
    list_options,
    note,
    print_json,
    print_list,
    print_result,
)
from ..terminal.questions import confirm, confirm_name_option, confirmed_names, yes_option
from ..terminal.session import fleet_call, open_session
from ..terminal.tables import problem_text, state_text, table
from ..terminal.times import local_time, run_length
from ..terminal.waiting import finish, leave_and_print, no_wait_option, progress_stream
from .approval import approve_cost

if TYPE_CHECKING:
    from ..cloud import NodeOptions
    from ..fleet.models import QueuedResource


@click.group("queued", cls=Group, aliases={"show": "describe"})
def queued() -> None:
    """Request TPUs that Google creates when it has capacity, even while this computer is off.

    A queued resource waits at Google. It uses quota until it is deleted, even if it failed or was
    suspended.
    """


@queued.command(
    "create",
    epilog=examples(
        "jupyter tpu queued create my-tpu --type v5litepod-16 --zone us-west4-a --spot",
        "jupyter tpu queued create my-tpu --type v4-32 --node-count 2 --valid-until-duration 2d",
        "jupyter tpu queued create my-tpu --type v6e-8 --zone us-east5-a --flex-start --run-for 4h",
    ),
)
@argument("name", metavar="NAME", help="The name of the queued resource and its TPU.")
@type_and_zone_options
@options_of("CreateTPU", "version")
@click.option("--spot", "tier", flag_value="spot", help="Google may preempt them at any time.")
@click.option("--reserved", "tier", flag_value="reserved", help="From a reservation.")
@click.option(
    "--flex-start",
    "tier",
    flag_value="flex-start",
    help="A TPU that runs for a limited time. Needs --run-for.",
)
@options_of("CreateTPU", "run_for")
@options_of("QueueTPU", "reservation", "node_count", "valid_until", into="queue")
@node_options
@yes_option("Create it without asking, whatever it costs.")
@no_wait_option
@json_option
def create(
    name: str,
    accelerator_type: str,
    zone: str | None,
    tier: Any,
    fields: dict[str, Any],
    queue: dict[str, Any],
    options: NodeOptions,
    yes: bool,
    no_wait: bool,
    as_json: bool,
) -> None:
    """Request TPUs that are created when there is capacity for all of them.

    Shows the price first, and asks. TPUs are billed as soon as they exist. To have a TPU
    connected then, use `jupyter tpu create … --until-available --queued --connect`.
    """
    from msgspec import structs

    from ..fleet.models import CreateTPU, QueueTPU

    tpu = CreateTPU(
        name=name,
        type=accelerator_type,
        zone=zone,
        tier=tier or ("reserved" if queue.get("reservation") else "on-demand"),
        api="tpu",  # Compute Engine has no queued resources
        options=options,
        **fields,
    )
    request = QueueTPU(tpu=tpu, **queue)
    count = request.node_count
    with open_session() as session:
        quote = session.call(session.fleet.quote(tpu))
        if count > 1:
            note(f"{count} TPUs. Each:")
        approve_cost(quote, yes=yes, as_json=as_json)
        price = quote.cost.usd_per_hour
        request.tpu = structs.replace(
            tpu,
            type=quote.type,
            zone=quote.zone,
            version=quote.version,
            confirm_price=bool(quote.question) or count > 1,
            max_price=None if price is None else price * count,
        )
        operation = session.call(session.fleet.queued.create(request))
        if no_wait:
            return leave_and_print(session, operation, as_json)
        finish(session, operation, progress_stream(as_json))
        queued_resource = session.call(session.fleet.queued.get(f"{quote.zone}~{name}"))
    if as_json:
        print_json(queued_resource)
    else:
        print(_state_line(queued_resource))
        print(f"To see its state: jupyter tpu queued describe {queued_resource.name}")


@queued.command("list")
@project_option
@list_options
def list_all() -> None:
    """List the queued resources, and what each waits for."""
    from ..fleet.models import ListQuery

    queued_resources = fleet_call(lambda fleet: fleet.queued.list(ListQuery(fresh=True)))
    spare = ("VALID UNTIL", "CREATED", "RUNS FOR", "TPUS")  # `describe` has them
    print_list(queued_resources, lambda chosen: _table(chosen.queued, spare), "queued")
    if queued_resources.problem is not None:
        note(f"This list may be incomplete: {problem_text(queued_resources.problem)}")


@queued.command("describe")
@tpu_argument(what="queued resource")
@json_option
def describe(name: str, as_json: bool) -> None:
    """Show a queued resource: its state, what that means, and its TPUs."""
    queued_resource = fleet_call(lambda fleet: fleet.queued.get(name))
    if as_json:
        print_json(queued_resource)
        return
    print(_table([queued_resource]))
    print(queued_resource.meaning)
    if queued_resource.problem is not None:
        print(problem_text(queued_resource.problem))


@queued.command("delete")
@tpu_argument(what="queued resource")
@click.option("--force", is_flag=True, help="Also delete its TPUs, and everything on their disks.")
@yes_option("Delete it without asking.")
@confirm_name_option
@no_wait_option
@json_option
def delete(
    name: str, force: bool, yes: bool, confirmed: tuple[str, ...], no_wait: bool, as_json: bool
) -> None:
    """Delete a queued resource, and free its quota."""
    from ..fleet.models import DeleteQueued

    with open_session() as session:
        queued_resource = session.call(session.fleet.queued.get(name))
        if not yes:
            what = (
                f" with {', '.join(queued_resource.tpus)} and everything on their disks"
                if force and queued_resource.has_tpus
                else f" ({queued_resource.state})"
            )
            confirm(
                f"Delete {queued_resource.name}{what}?", "Add --yes to delete it without asking."
            )
        names = confirmed_names([queued_resource], confirmed)
        options = DeleteQueued(
            force=force, confirm_name=queued_resource.name if queued_resource.name in names else ""
        )
        ref = f"{queued_resource.zone}~{queued_resource.name}"
        operation = session.call(session.fleet.queued.delete(ref, options))
        if no_wait:
            return leave_and_print(session, operation, as_json)
        finish(session, operation, progress_stream(as_json))
        ended = session.call(session.fleet.operations.get(operation.id))
    print_result(ended, f"Deleted {queued_resource.name}.", as_json)


@queued.command("reset")
@tpu_argument(what="queued resource")
@confirm_name_option
@json_option
def reset(name: str, confirmed: tuple[str, ...], as_json: bool) -> None:
    """Put a failed or suspended queued resource back into the queue."""
    from ..fleet.models import ResetQueued

    with open_session() as session:
        queued_resource = session.call(session.fleet.queued.get(name))
        names = confirmed_names([queued_resource], confirmed)
        options = ResetQueued(
            confirm_name=queued_resource.name if queued_resource.name in names else ""
        )
        queued_resource = session.call(
            session.fleet.queued.reset(f"{queued_resource.zone}~{queued_resource.name}", options)
        )
    print_result(queued_resource, _state_line(queued_resource), as_json)


def _state_line(request: QueuedResource) -> str:
    emulated = " (emulated)" if request.emulated else ""
    return f"The queued resource {request.name}{emulated} is {request.state}. {request.meaning}"


def _table(listed: Sequence[QueuedResource], spare: Sequence[str] = ()) -> str:
    if not listed:
        return (
            "No queued resources. Ask for TPUs: "
            "jupyter tpu queued create my-tpu --type TYPE --zone ZONE"
        )
    heads = (
        "NAME", "ZONE", "TYPE", "TIER", "RUNS FOR", "STATE", "TPUS", "CREATED", "VALID UNTIL", "",
    )  # fmt: skip
    rows = [
        (
            queued_resource.name,
            queued_resource.zone,
            queued_resource.type,
            queued_resource.tier,
            run_length(queued_resource.run_for),
            state_text(queued_resource.state),
            ", ".join(queued_resource.tpus),
            *(
                local_time(time) if time else ""
                for time in (queued_resource.created, queued_resource.valid_until)
            ),
            "emulated" if queued_resource.emulated else "",
        )
        for queued_resource in listed
    ]
    return table(heads, rows, spare)

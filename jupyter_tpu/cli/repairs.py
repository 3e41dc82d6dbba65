"""The commands for broken hardware, replace and report-fault; and adopt."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..commands.costs import hourly
from ..commands.field_options import options_of
from ..commands.grammar import command, examples
from ..commands.hunts import left_to_server
from ..commands.parameters import tpu_argument
from ..commands.questions import confirm_name_option, confirmed_names
from ..commands.session import open_session, tpu_ref
from .console import confirm, json_option, no_wait_option, print_json, print_result, yes_option
from .hunts import wait_for
from .losses import consequences_of, lost, may_end
from .waiting import finish, leave, left_line, progress_stream, require_server

if TYPE_CHECKING:
    from ..fleet.models import TPU


@command(
    "replace",
    epilog=examples("jupyter tpu replace my-tpu", "jupyter tpu replace my-tpu --yes --no-wait"),
)
@tpu_argument()
@yes_option("Replace it without asking, whatever it costs and whatever runs there.")
@no_wait_option
@json_option
def replace(name: str, yes: bool, no_wait: bool, as_json: bool) -> None:
    """Delete a TPU, and create the same one again, on other hardware.

    Type, zone, tier, options, labels and guard are the same. Environments, tunnels, watched folders
    and shared folders come back. All files on its hosts are lost. If there is no capacity, it is
    tried again until there is, or until you stop the hunt.
    """
    from ..fleet.models import ReplaceTPU

    with open_session() as session:
        if no_wait:
            require_server(session)
        tpu = session.call(session.fleet.tpu(name))
        ref = tpu_ref(tpu)
        plan = session.call(session.fleet.hunts.replacement(ref))
        if not as_json or not yes:
            price = hourly(plan.cost, plan.request.tier)
            lines = [f"{price[:1].upper()}{price[1:]}.", *plan.restored, *plan.lost]
            print(*lines, sep="\n", file=sys.stderr if as_json else sys.stdout, flush=True)
        if not yes:
            confirm(
                f"Delete {tpu.name} and everything on its disks, and create it again?",
                "Add --yes to replace it without asking.",
            )
        options = ReplaceTPU(
            **may_end(plan, yes),
            confirm_price=bool(plan.question),
            max_price=plan.cost.usd_per_hour,
        )
        hunt = session.call(session.fleet.hunts.replace(ref, options))
        if not no_wait:
            wait_for(session, hunt, as_json)
        print_result(hunt, left_to_server(hunt), as_json)


@command(
    "report-fault",
    epilog=examples(
        "jupyter tpu report-fault my-tpu --host 3 --fault chip-error --about 'HBM ECC errors'"
    ),
)
@tpu_argument()
@options_of("ReportFault", "host", "fault", "about", into="report")
@yes_option("Report it, and end the kernels and jobs that run there, without asking.")
@confirm_name_option
@no_wait_option
@json_option
def report_fault(
    name: str,
    report: dict[str, Any],
    yes: bool,
    confirmed: tuple[str, ...],
    no_wait: bool,
    as_json: bool,
) -> None:
    """Tell Google that the machine under a host is broken (Compute Engine only).

    Google ends the host at once, and starts it again on another machine, with its disk. All hosts
    of a slice are restarted.
    """
    from msgspec import convert, structs

    from ..fleet.models import ReportFault

    with open_session() as session:
        tpu: TPU = session.call(session.fleet.tpu(name))
        request = convert(report, ReportFault)
        ends = consequences_of(session, "report-fault", [tpu])
        if not yes:
            confirm(
                f"Report host {request.host} of {tpu.name} to Google? {lost(ends)}",
                "Add --yes to report it without asking.",
            )
        typed = confirmed_names([tpu], confirmed)
        request = structs.replace(
            request,
            **may_end(ends[tpu_ref(tpu)], yes),
            confirm_name=tpu.name if tpu.name in typed else "",
        )
        operation = session.call(session.fleet.report_fault(tpu_ref(tpu), request))
        if no_wait:
            leave(session, operation)
            line = left_line(session, operation)
        else:
            operation = finish(session, operation, progress_stream(as_json))
            line = f"Reported host {request.host} of {tpu.name}. Google starts it again."
        print_result(operation, line, as_json)


@command("adopt", epilog=examples("jupyter tpu adopt my-tpu"))
@tpu_argument()
@confirm_name_option
@json_option
def adopt(name: str, confirmed: tuple[str, ...], as_json: bool) -> None:
    """Become the owner of a TPU that another person or program created.

    This changes the label with its owner, which `usage` shows. To use the TPU, connect it.
    """
    from ..fleet.models import AdoptTPU

    with open_session() as session:
        tpu = session.call(session.fleet.tpu(name))
        names = confirmed_names([tpu], confirmed)
        request = AdoptTPU(confirm_name=tpu.name if tpu.name in names else "")
        used_tpu = session.call(session.fleet.usage.adopt(tpu_ref(tpu), request))
    if as_json:
        print_json(used_tpu)
    else:
        print(f"{used_tpu.name} is yours.")
        print(f"To use it in notebooks: jupyter tpu connect {used_tpu.name}")

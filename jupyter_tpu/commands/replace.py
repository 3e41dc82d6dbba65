"""The commands for broken hardware, replace and report-fault; and adopt."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ..terminal.console import (
    confirm,
    json_option,
    no_wait_option,
    print_json,
    print_result,
    yes_option,
)
from ..terminal.costs import hourly
from ..terminal.field_options import options_of
from ..terminal.grammar import command, examples
from ..terminal.parameters import tpu_argument
from ..terminal.questions import confirm_name_option, confirmed_names
from ..terminal.session import open_session, tpu_ref
from ..terminal.waiting import finish, leave, left_line, progress_stream, require_server
from .hunt import wait_for
from .hunt_text import left_to_server
from .losses import losses, running_on

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
        running = running_on(session, [tpu])
        if not as_json or not yes:
            price = hourly(plan.cost, plan.request.tier)
            lines = [f"{price[:1].upper()}{price[1:]}.", *plan.restored, *plan.lost]
            print(*lines, sep="\n", file=sys.stderr if as_json else sys.stdout, flush=True)
        if not yes:
            ends = losses([*running.values()])
            confirm(
                f"Delete {tpu.name} and everything on its disks, and create it again?{ends}",
                "Add --yes to replace it without asking.",
            )
        options = ReplaceTPU(
            **running[ref].may_end(yes),
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
        running = running_on(session, [tpu])
        if not yes:
            ends = losses([*running.values()])
            confirm(
                f"Report host {request.host} of {tpu.name} to Google? It ends at once.{ends}",
                "Add --yes to report it without asking.",
            )
        typed = confirmed_names([tpu], confirmed)
        request = structs.replace(
            request,
            **running[tpu_ref(tpu)].may_end(yes),
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

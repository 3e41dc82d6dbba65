"""``jupyter tpu report-fault``: tells Google that the machine under a host is broken."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..terminal.field_options import options_of
from ..terminal.grammar import command, examples
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option, print_result
from ..terminal.questions import confirm, confirm_name_option, confirmed_names, yes_option
from ..terminal.session import open_session, tpu_ref
from ..terminal.waiting import finish, leave, left_line, no_wait_option, progress_stream
from .losses import consequences_of, lost, may_end

if TYPE_CHECKING:
    from ..fleet.models import TPU


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

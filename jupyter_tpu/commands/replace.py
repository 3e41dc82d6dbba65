"""``jupyter tpu replace``: the same TPU again, on other hardware."""

from __future__ import annotations

import sys
from typing import Any

from ..terminal.costs import hourly
from ..terminal.field_options import options_of
from ..terminal.grammar import command, examples
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option, print_result
from ..terminal.questions import confirm, yes_option
from ..terminal.session import open_session, tpu_ref
from ..terminal.waiting import no_wait_option, require_server
from .hunt import left_to_server, wait_for
from .losses import may_end


@command(
    "replace",
    epilog=examples("jupyter tpu replace my-tpu", "jupyter tpu replace my-tpu --yes --no-wait"),
)
@tpu_argument()
@yes_option("Replace it without asking, whatever it costs and whatever runs there.")
@options_of("ReplaceTPU", "sessions")
@no_wait_option
@json_option
def replace(name: str, yes: bool, fields: dict[str, Any], no_wait: bool, as_json: bool) -> None:
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
            lines = [f"{price[:1].upper()}{price[1:]}.", *plan.restored, *plan.sentences()]
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
            **fields,
        )
        hunt = session.call(session.fleet.hunts.replace(ref, options))
        if not no_wait:
            wait_for(session, hunt, as_json)
        print_result(hunt, left_to_server(hunt), as_json)

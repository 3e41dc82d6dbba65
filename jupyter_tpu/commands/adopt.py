"""``jupyter tpu adopt``: another's TPU becomes yours."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..terminal.grammar import command, examples
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option, print_json
from ..terminal.questions import confirm_name_option, confirmed_names
from ..terminal.session import open_session, tpu_ref

if TYPE_CHECKING:
    pass


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

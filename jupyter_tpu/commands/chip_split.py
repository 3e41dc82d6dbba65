"""``jupyter tpu chips split``: kernels for some of a TPU's chips each, for several notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..agent.protocol.chosen_chips import numbers
from .field_options import options_of
from .grammar import command, examples
from .parameters import environment_option, tpu_argument
from .printing import json_option, print_json
from .session import open_session
from .tables import table

if TYPE_CHECKING:
    from ..fleet.models import ChipKernels


@command(
    "split",
    epilog=examples(
        "jupyter tpu chips split my-tpu",
        "jupyter tpu chips split my-tpu --each 2",
        "jupyter tpu chips split my-tpu --each 0",
    ),
)
@tpu_argument()
@options_of("SplitChips", "each")
@environment_option
@json_option
def split(name: str, fields: dict[str, Any], environment: str, as_json: bool) -> None:
    """Offer kernels that each get some of the chips of host 0, for several notebooks.

    They are in the kernel pickers next to the kernel for all chips. A chip has one such kernel at a
    time, until that kernel is shut down. While one runs, the kernel for all chips does not start.
    While the kernel for all chips runs, none of them starts.
    """
    from ..fleet.models import SplitChips

    request = SplitChips(environment=environment, **fields)
    with open_session() as session:
        kernels = session.call(session.fleet.chip_kernels.split(name, request))
    if as_json:
        print_json(kernels)
    else:
        print(kernels_table(kernels))


def kernels_table(split: ChipKernels) -> str:
    """The kernels that get some of the chips, and how far that is known to work."""
    if not split.kernels:
        return (
            f"Only the kernel for all chips of {split.tpu} is in the kernel pickers now. Running "
            "kernels keep their chips."
        )
    rows = [
        (numbers(kernel.chips), kernel.display_name, kernel.kernelspec) for kernel in split.kernels
    ]
    return f"{table(('CHIPS', 'KERNEL', 'KERNELSPEC'), rows)}\n{split.note}"

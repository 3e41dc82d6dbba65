"""Where the kernels of a kernelspec run, and with what."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct

from .cloud import NodeName
from .options import option


class KernelPlace(Struct, frozen=True, kw_only=True):
    """What a kernelspec says of it: traits of its provisioner, and options of its launcher."""

    project: Annotated[str, option("The Google Cloud project of the TPU.")]
    zone: Annotated[str, option("The zone of the TPU.")]
    tpu: Annotated[str, option("The node name of the TPU.")]
    worker: Annotated[int, option("Which host of the TPU, from 0.")] = 0
    environment: Annotated[str, option("The environment's name.")] = "default"
    host_python: Annotated[str, option("The environment's Python on the host.")]
    emulator: Annotated[str | None, option("The emulator's state file.")] = None
    chips: Annotated[
        str,
        option(
            "The chips of the host that only this kernel uses: '0', or '0,1'. '': all chips, "
            "shared with other such kernels. `jupyter tpu chips split` writes it."
        ),
    ] = ""
    hosts: Annotated[
        int,
        option(
            "More than 0: a pod kernel, which runs each cell on all hosts of the TPU. 0: it runs "
            "on the host `worker`."
        ),
    ] = 0
    slices: Annotated[
        str,
        option(
            "Of a pod kernel: other TPUs of this zone on which it also runs, as slices of one "
            "job: 'b,c'. `jupyter tpu kernel add --slices` writes it."
        ),
    ] = ""
    of_agent: Annotated[
        bool,
        option(
            "Whether a coding agent has created the TPU: its kernels get only the tokens that are "
            "for agents."
        ),
    ] = False

    @property
    def node(self) -> NodeName:
        """The TPU."""
        return NodeName(self.project, self.zone, self.tpu)

    @property
    def chip_numbers(self) -> list[int]:
        """The chips of the host that its kernels get; []: all."""
        return [int(chip) for chip in self.chips.split(",") if chip]

    @property
    def other_tpus(self) -> list[str]:
        """The other TPUs of its zone that its kernels run on."""
        return [name for name in self.slices.split(",") if name]

    @property
    def is_default(self) -> bool:
        """Whether its kernels have one host, with all chips."""
        return not self.chips and not self.hosts

"""Some chips of a host for one process: which can be chosen, and what libtpu needs to be told.

libtpu takes no lock for such a process, so nothing but a booking keeps two from the same chip.

Sources: ray's ``_private/accelerators/tpu.py`` (1 and 2 chips), vllm's tpu-inference (4 of 8),
pytorch/xla's ``_internal/tpu.py`` (addresses and ports); for v2 and v3 a recipe of many users that
has older names and a mesh controller. jupyter-tpu was tried with none of them on hardware.
"""

from __future__ import annotations

import contextlib
import os
from typing import Dict, List, Mapping, Sequence, Set

from .chips import GOOGLE, chip_devices
from .process_env import BOUNDS, bounds_of, complete_variables

#: The port of chip 0's process; that of chip N is N higher.
FIRST_PORT = 8476
#: The variable with the ports of which libtpu takes the first free one to report figures, and the
#: first port; the kernel with chip N as its first has the one that is N higher, and no other.
METRICS_PORTS, METRICS_PORT = "TPU_RUNTIME_METRICS_PORTS", 8431
#: What emulated hosts say: the devices of JAX for each chip.
_EMULATED_CORES = "JUPYTER_TPU_EMULATED_CORES"
#: How many chips of a host with so many a recipe is known for, other than all; generations that it
#: was written for. For the others no test of it is known.
_KNOWN = {
    (1, 4): ("v2", "v3", "v4", "v5e", "v5p", "v6e"),
    (1, 8): ("v5e", "v6e"),
    (2, 4): ("v2", "v3", "v4", "v5e", "v5p", "v6e"),
    (2, 8): ("v5e", "v6e"),
    (4, 8): ("v5e", "v6e"),
}


def problem_of(chosen: Sequence[int], of: int) -> str:
    """Why the chips *chosen* of a host with *of* can't be one process's; "" if they can."""
    count = len(chosen)
    if not all(0 <= chip < of for chip in chosen):
        return "The host has the chips 0 to %d." % (of - 1) if of else "The host has no chips."
    if count == of or (count, of) not in BOUNDS:
        counts = ", ".join(str(size) for size in group_sizes(of))
        if not counts:
            return "A kernel gets all chips of this host."
        return "Of %d chips, a kernel can have %s, or all." % (of, counts)
    if chosen[0] % count or list(chosen) != list(range(chosen[0], chosen[0] + count)):
        return "The chips of one kernel must be neighbors: %s." % ", ".join(
            map(numbers, groups(count, of))
        )
    return ""


def group_sizes(of: int) -> List[int]:
    """How many chips of a host with *of* a process can have, other than all."""
    return sorted(count for count, whole in BOUNDS if whole == of and count < of)


def groups(count: int, of: int) -> List[List[int]]:
    """The chips of a host in groups of *count*, each for one process."""
    return [list(range(first, first + count)) for first in range(0, of, count)]


def is_known(generation: str, count: int, of: int) -> bool:
    """Whether others have published how a process gets *count* of the *of* chips of a host."""
    return generation in _KNOWN.get((count, of), ())


def numbers(chips: Sequence[int]) -> str:
    """ "3" for one chip, "0-3" for neighbors."""
    return str(chips[0]) if len(chips) == 1 else "%d-%d" % (chips[0], chips[-1])


def named(chips: Sequence[int]) -> str:
    """ "chip 3", "chips 0-3"."""
    return ("chip " if len(chips) == 1 else "chips ") + numbers(chips)


def chip_variables(
    chosen: Sequence[int], of: int, generation: str, host: Mapping[str, str]
) -> Dict[str, str]:
    """The variables of a process that sees only these chips of a host with *of*, and no other host.

    generation: "v5e", for example; "" if it is not known. host: the variables of the host, where
    emulated ones say how many devices a chip has.
    """
    port = FIRST_PORT + chosen[0]
    variables = {
        "TPU_VISIBLE_CHIPS": ",".join(map(str, chosen)),
        "TPU_CHIPS_PER_PROCESS_BOUNDS": bounds_of(len(chosen), of, generation),
        "TPU_PROCESS_BOUNDS": "1,1,1",
        "TPU_PROCESS_ADDRESSES": "localhost:%d" % port,
        "TPU_PROCESS_PORT": str(port),
        "CLOUD_TPU_TASK_ID": "0",
        METRICS_PORTS: str(metrics_port(chosen)),
    }
    if generation in ("v2", "v3"):
        variables["TPU_MESH_CONTROLLER_ADDRESS"] = "localhost:%d" % port
        variables["TPU_MESH_CONTROLLER_PORT"] = str(port)
    if _EMULATED_CORES in host:
        variables["JAX_NUM_CPU_DEVICES"] = str(len(chosen) * int(host[_EMULATED_CORES]))
    return complete_variables(variables)


def metrics_port(chosen: Sequence[int]) -> int:
    """Where a process with these chips of its own reports its figures."""
    return METRICS_PORT + chosen[0]


def devices_by_chip(root: str = "/") -> List[Set[str]]:
    """The device files of each of this host's chips, chip 0's first.

    /dev/accelN is chip N. The number of a vfio file is that of an IOMMU group; there chips are
    numbered by their PCI addresses, as far as is known, and one of TPU7x has a file for each core.
    """
    devices = chip_devices(root)
    folder = os.path.join(root, "sys/bus/pci/devices")
    by_address: Dict[str, Set[str]] = {}
    with contextlib.suppress(OSError):
        for address in sorted(os.listdir(folder)):
            with open(os.path.join(folder, address, "vendor")) as file:
                if file.read().strip() == GOOGLE:
                    group = os.readlink(os.path.join(folder, address, "iommu_group"))
                    files = by_address.setdefault(address.rpartition(".")[0], set())
                    files.add("/dev/vfio/" + os.path.basename(group))
    if set().union(*by_address.values()) == set(devices):
        return list(by_address.values())
    return [{path} for path in sorted(devices, key=_number)]


def _number(path: str) -> int:
    return int("".join(filter(str.isdigit, path)))

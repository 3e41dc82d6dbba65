"""The variables with which `torchrun` starts PyTorch's processes on the hosts of a TPU: one for
each device, since a process of TorchTPU uses one.

They are those that TorchTPU's own ``torch.tpu.distributed.set_tpu_launch_env`` sets (torch_tpu
0.2.0, ``_internal/distributed/distributed.py``), which keeps what is set. Where nothing names the
slice's topology, it takes that of one host for it. Its order of hosts is that of their chips'
positions, if it can ask for them; here it is Google's. On hardware this was not tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..catalog import AcceleratorType

#: The ports of a host's processes begin here, and the port of their coordinator on host 0.
FIRST_PORT, COORDINATOR_PORT = 8070, 29500


def launch_variables(
    accelerator: AcceleratorType, hosts: Sequence[int], host: int, addresses: Sequence[str]
) -> Mapping[str, str]:
    """The variables for `torchrun` on *host*, one of the *hosts* of a TPU that work together; {}
    where it is not known how these do: some of several hosts.

    addresses: of all hosts of the TPU, by their numbers.
    """
    devices = accelerator.devices_per_host
    if len(hosts) not in (1, accelerator.hosts) or not all(addresses[host] for host in hosts):
        return {}
    one_of_many = len(hosts) < accelerator.hosts
    bounds = "2,2,1" if one_of_many else slice_bounds(accelerator.topology)
    per_chip = accelerator.devices // accelerator.chips
    members = [addresses[number] for number in sorted(hosts)]
    node = {
        "NNODES": str(len(members)),
        "NODE_RANK": str(sorted(hosts).index(host)),
        "MASTER_ADDR": members[0],
        "MASTER_PORT": str(COORDINATOR_PORT),
    }
    return {
        "TORCH_TPU_SLICEBUILDER_ADDRESSES": ",".join(
            f"{address}:{FIRST_PORT + device}" for address in members for device in range(devices)
        ),
        "TORCH_TPU_TOPOLOGY": bounds if per_chip == 1 else f"{bounds},{per_chip}",
        "TORCH_TPU_DEVICES_PER_HOST": str(devices),
        **node,
        # What torchrun takes where its options are not given.
        **{f"PET_{name}": value for name, value in node.items()},
        "PET_NPROC_PER_NODE": str(devices),
    }


def slice_bounds(topology: str) -> str:
    """ "4,4,1" of the topology "4x4"."""
    sides = topology.split("x")
    return ",".join([*sides, *["1"] * (3 - len(sides))])

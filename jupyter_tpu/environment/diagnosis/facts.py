"""What is known of a TPU's hosts, and what they should be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec import Struct

from ...errors import TPUError
from ..verification import Hardware, HostCheck


class Disk(Struct, frozen=True, kw_only=True):
    path: str
    free: int  # bytes
    total: int


class ServiceAccount(Struct, frozen=True, kw_only=True):
    """The account of a VM: email is "" if it has none."""

    email: str
    scopes: list[str]


class HostFacts(Struct, frozen=True, kw_only=True):
    """What a host says about itself; see ``on_host.environments.doctor.examine``."""

    hardware: Hardware
    disks: list[Disk]
    logs: int  # bytes in /tmp/tpu_logs
    environments: dict[str, HostCheck]
    account: ServiceAccount | None = None  # None: not known


class ClockOffset(Struct, frozen=True, kw_only=True):
    """A host's clock is ahead of this computer's by something between these, in seconds.

    They are as far apart as the host's answer took.
    """

    least: float
    most: float


@dataclass(kw_only=True)
class ExaminedHost:
    """One host, and what is known of it. An error says why something is not known."""

    host: int
    facts: HostFacts | TPUError
    agent: TPUError | None = None  # why the daemon does not answer
    owners: dict[int, str] = field(default_factory=dict)  # "The job 1a2b" that has a process
    clock: ClockOffset | None = None  # None: the daemon was not asked, or does not answer
    ports: Sequence[int] | TPUError | None = None  # of host 0, that it reaches


class ExpectedTPU(Struct, frozen=True, kw_only=True):
    """What the hosts must have, according to the catalog; 0 where it is not known."""

    name: str
    emulated: bool
    #: Google's zone; "" for a machine that is not Google's.
    zone: str = ""
    network: str = "default"
    #: A machine that has no chips, and is used all the same.
    cpu_only: bool = False
    chips_per_host: int = 0
    devices_per_host: int = 0

    @property
    def without_chips(self) -> bool:
        return self.emulated or self.cpu_only

"""Compute Engine's machine types with TPUs: where they are, and what their hosts have.

The catalog knows the types of Cloud TPU. These are hosts, of which a topology may take several.
"""

from __future__ import annotations

from functools import cache
from math import prod

from msgspec import Struct

from ... import catalog
from ...catalog import AcceleratorType
from . import api_errors

#: GKE has them there; `instances.insert` refuses them.
_V5E = "us-central1-a us-west4-a europe-west4-b"


class Family(Struct, frozen=True):
    """A generation as Compute Engine has it."""

    generation: str
    prefix: str  # of the accelerator type in the hosts' metadata
    cores: int  # that a chip counts for in that name
    devices_per_chip: int
    hbm_gib_per_chip: int
    image: str  # the family of its images
    sides: int  # of a topology


IMAGES = catalog.IMAGE_PROJECT
_IMAGE_24, _IMAGE_22, _OLDER_NAME = catalog.IMAGE_FAMILIES
#: Family → its newest build.
IMAGE_FAMILIES = {
    _IMAGE_22: f"{_IMAGE_22}-v20260803",
    _OLDER_NAME: f"{_IMAGE_22}-v20260803",
    _IMAGE_24: f"{_IMAGE_24}-v20260716",
}
_FAMILIES = {
    "ct5lp": Family("v5e", "v5litepod", 1, 1, 16, _IMAGE_22, 2),
    "ct5p": Family("v5p", "v5p", 2, 1, 95, _IMAGE_22, 3),
    "ct6e": Family("v6e", "v6e", 1, 1, 32, _IMAGE_22, 2),
    "tpu7x": Family("tpu7x", "v7x", 2, 2, 192, _IMAGE_24, 3),
}
_ONE_HOST = {(1, 2): "1x1", (4, 2): "2x2", (8, 2): "2x4", (4, 3): "2x2x1", (1, 3): "1x1x1"}


class MachineType(Struct, frozen=True):
    """One machine type, in all zones that list it."""

    name: str
    chips: int
    cpus: int
    memory_gb: int
    zones: tuple[str, ...]

    @property
    def family(self) -> Family:
        return _FAMILIES[self.name.partition("-")[0]]

    @property
    def creatable(self) -> bool:
        """v5e is listed for GKE's sake."""
        return self.family.generation != "v5e"

    @property
    def topology(self) -> str:
        return _ONE_HOST[self.chips, self.family.sides]

    def accelerator(self, topology: str = "", *, name: str = "") -> AcceleratorType:
        """What a slice of *topology* is, or one host alone; *name* in place of the hosts' own."""
        family = self.family
        chips = prod(map(int, topology.split("x"))) if topology else self.chips
        return AcceleratorType(
            name=name or f"{family.prefix}-{chips * family.cores}",
            generation=family.generation,
            meaning="",
            chips=chips,
            hosts=chips // self.chips,
            chips_per_host=self.chips,
            devices=chips * family.devices_per_chip,
            devices_per_host=self.chips * family.devices_per_chip,
            hbm_gib=float(chips * family.hbm_gib_per_chip),
            topology=topology or self.topology,
            config_type="",
            version=family.image,
            zones=self.zones,
            prices=(),
        )


def _zones(name: str) -> tuple[str, ...]:
    """Where the catalog says that it is."""
    machine = catalog.type_of_machine(name).machine
    assert machine is not None
    return machine.zones


MACHINE_TYPES = tuple(
    MachineType(name, chips, cpus, memory, tuple(sorted(zones.split())) if zones else _zones(name))
    for name, chips, cpus, memory, zones in (
        ("ct5lp-hightpu-1t", 1, 24, 48, _V5E),
        ("ct5lp-hightpu-4t", 4, 112, 192, _V5E),
        ("ct5lp-hightpu-8t", 8, 224, 384, _V5E),
        ("ct5p-hightpu-4t", 4, 208, 448, ""),
        ("ct6e-standard-1t", 1, 44, 176, ""),
        ("ct6e-standard-4t", 4, 180, 720, ""),
        ("ct6e-standard-8t", 8, 180, 1440, ""),
        ("tpu7x-standard-4t", 4, 224, 960, ""),
    )
)


@cache
def compute_zones() -> tuple[str, ...]:
    """All zones of Compute Engine here: those of its machine types, and those of Cloud TPU."""
    return tuple(sorted({*catalog.zones(), *(zone for m in MACHINE_TYPES for zone in m.zones)}))


def machine_types_in(zone: str) -> list[MachineType]:
    return [type_ for type_ in MACHINE_TYPES if zone in type_.zones]


def machine_type(name: str) -> MachineType | None:
    """The machine type with this name or URL, in whatever zone."""
    short = name.rpartition("/")[2]
    return next((type_ for type_ in MACHINE_TYPES if type_.name == short), None)


def hosts_of(machine: MachineType, topology: str) -> int:
    """How many hosts a slice of *topology* has; ApiError for one that this type can't have."""
    sides = topology.split("x")
    if len(sides) == machine.family.sides and all(side.isdecimal() for side in sides):
        hosts, rest = divmod(prod(map(int, sides)), machine.chips)
        if hosts and not rest:
            return hosts
    raise api_errors.compute_invalid(  # our wording
        f"Invalid value for field 'resource.workloadPolicy.acceleratorTopology': '{topology}'. "
        f"{machine.name} has no such topology."
    )

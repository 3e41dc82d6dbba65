"""Reading the tables: each type with what its name means."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from math import prod

from .models import API, AcceleratorType, MachineShape
from .prices import SHIPPED
from .tables import (
    ANNOUNCED,
    ANNOUNCED_READ,
    GENERATIONS,
    IMAGE_FAMILIES,
    SIZES,
    VERSIONS,
    Generation,
)

#: A machine type: "ct6e-standard-4t", and a second spelling, with "-tpu".
_MACHINE = re.compile(r"(?P<machine>[a-z0-9]+-[a-z]+)-(?P<chips>\d+)t(-tpu)?")
_TOPOLOGY = re.compile(r"\d+x\d+(x\d+)?")


#: What else Google calls a generation; "v7x" is in the metadata of hosts.
#: An announced generation, in a name such as "tpu8t-8", "v8i" or "8t".
_ANNOUNCED = re.compile(r"(tpu[ -]?|v)?(?P<name>8[it])(?![a-z0-9])", re.IGNORECASE)
_GOOGLES_NAMES = {"v7x": "tpu7x", "ironwood": "tpu7x"}


class UnknownType(LookupError):
    """No TPU type has that name; the message suggests the nearest ones, or says that Google has
    not published any of the generation.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.announced = announced_generation(name)
        if self.announced:
            self.suggestions: tuple[str, ...] = ()
            super().__init__(
                f"Google has announced {self.announced}, but has published no types, zones or "
                f"prices of it (as of {ANNOUNCED_READ})."
            )
            return
        self.suggestions = tuple(_near(name))
        sentence = f"The TPU type {name} does not exist."
        if self.suggestions:
            sentence += f" Did you mean {' or '.join(self.suggestions)}?"
        super().__init__(sentence)


def announced_generation(name: str) -> str:
    """The generation that *name* begins with, if Google has only announced it: "TPU 8t"; else "".

    >>> [announced_generation(name) for name in ("tpu8t-8", "v8i", "v6e-8")]
    ['TPU 8t', 'TPU 8i', '']
    """
    match = _ANNOUNCED.match(name)
    return ANNOUNCED[f"tpu{match['name'].lower()}"] if match is not None else ""


@cache
def types(api: API | None = None) -> tuple[AcceleratorType, ...]:
    """All types, by generation and size; with *api*, those that it can make."""
    if api is not None:
        return tuple(type_ for type_ in types() if api in type_.apis())
    generations = {generation.name: generation for generation in GENERATIONS}
    matches = []
    for generation_name, number, topology, chips_per_host, zones in SIZES:
        generation = generations[generation_name]
        chips = prod(int(side) for side in topology.split("x"))
        hosts = chips // chips_per_host
        hbm = chips * generation.hbm_gib_per_chip
        machine = _machine(generation, topology if hosts > 1 else "", chips_per_host)
        tpu_zones = tuple(sorted(zones.split()))
        others = [size for size in SIZES if (size[0], size[2]) == (generation_name, topology)]
        matches.append(
            AcceleratorType(
                name=f"{generation.prefix}-{number}",
                generation=generation.name,
                meaning=_meaning(chips, hosts, hbm),
                chips=chips,
                hosts=hosts,
                chips_per_host=chips_per_host,
                devices=chips * generation.devices_per_chip,
                devices_per_host=chips_per_host * generation.devices_per_chip,
                hbm_gib=float(hbm),
                topology=topology,
                config_type=generation.config_type if tpu_zones else "",
                version=generation.image if tpu_zones else generation.machine_image,
                zones=tuple(sorted({*tpu_zones, *(machine.zones if machine else ())})),
                prices=SHIPPED.region_prices(generation.name, chips, hosts),
                tpu_zones=tpu_zones,
                machine=machine,
                other_form=next(
                    (f"{generation.prefix}-{other[1]}" for other in others if other[1] != number),
                    "",
                ),
            )
        )
    return tuple(matches)


def _machine(generation: Generation, topology: str, chips_per_host: int) -> MachineShape | None:
    if not generation.machine:
        return None
    return MachineShape(
        machine_type=f"{generation.machine}-{chips_per_host}t",
        topology=topology,
        image=generation.machine_image,
        zones=tuple(sorted(generation.machine_zones.split())),
    )


def accelerator_type(name: str) -> AcceleratorType:
    """The type called *name*; raises `UnknownType`, which suggests near names."""
    try:
        return _by_name()[name]
    except KeyError:
        raise UnknownType(name) from None


def type_of_topology(generation: str, topology: str) -> AcceleratorType:
    """The type of so many chips of *generation* ("v5e", or "v5litepod" as types begin); raises
    `UnknownType`. A type may have several topologies, of which the catalog knows the usual one.
    """
    accelerator_type = _of_topology(generation, topology)
    if accelerator_type is None:
        chips = prod(int(side) for side in topology.split("x"))
        raise UnknownType(f"{generation} with {chips} chips")
    return accelerator_type


def _of_topology(generation: str, topology: str) -> AcceleratorType | None:
    sides = topology.split("x")
    chips = prod(int(side) for side in sides)
    for type_ in types():
        same_form = (type_.chips, type_.topology.count("x")) == (chips, len(sides) - 1)
        if same_form and generation in (type_.generation, type_.name.partition("-")[0]):
            return type_
    return None


def type_of_machine(machine_type: str, topology: str = "") -> AcceleratorType:
    """What Compute Engine's *machine_type* is: a slice of *topology*, or one host without one.

    Raises `UnknownType`.
    """
    accelerator_type = _of_machine(machine_type, topology)
    if accelerator_type is None:
        what = f" with the topology {topology}" if topology else ""
        raise UnknownType(f"{machine_type}{what}")
    return accelerator_type


def _of_machine(machine_type: str, topology: str = "") -> AcceleratorType | None:
    match = _MACHINE.fullmatch(machine_type)
    if match is None:
        return None
    plain = f"{match['machine']}-{match['chips']}t"
    for type_ in types("compute"):
        shape = type_.machine
        if shape is not None and (shape.machine_type, shape.topology) == (plain, topology):
            return type_
    return None


def is_machine_type(name: str) -> bool:
    """Whether *name* is a machine type of Compute Engine with TPUs, as far as known."""
    return _of_machine(name) is not None


def unlisted_type(name: str, zone: str) -> AcceleratorType:
    """A type that is offered in *zone*, and of which the tables know nothing: its numbers are 0."""
    return AcceleratorType(
        name=name,
        generation=name.partition("-")[0],
        meaning="",
        chips=0,
        hosts=0,
        chips_per_host=0,
        devices=0,
        devices_per_host=0,
        hbm_gib=0.0,
        topology="",
        config_type="",
        version="",
        zones=(zone,),
        prices=(),
    )


@cache
def zones(api: API | None = None) -> tuple[str, ...]:
    """All zones with TPUs (of *api*), as far as known, in alphabetical order."""
    return tuple(sorted({zone for accelerator in types() for zone in accelerator.zones_of(api)}))


def is_zone(name: str, api: API | None = None) -> bool:
    """Whether *name* is a zone with TPUs, as far as known."""
    return name in zones(api)


def types_in(zone: str, api: API | None = None) -> tuple[AcceleratorType, ...]:
    """The types offered in *zone*, as far as known; empty for a zone that is not known."""
    return tuple(accelerator for accelerator in types() if zone in accelerator.zones_of(api))


def nearest_zones(zones: Iterable[str], home: str) -> list[str]:
    """*zones*, the nearest to *home* first: *home* itself, then those of its region
    ("us-central1"), of its part of the continent ("us-central"), of its continent, and of the US.
    Of equally near ones, AI zones ("us-central1-ai1a") come last.

    >>> nearest_zones(["asia-northeast1-b", "us-central1-a", "us-central2-b", "us-east1-d"],
    ...               "us-central1-f")
    ['us-central1-a', 'us-central2-b', 'us-east1-d', 'asia-northeast1-b']
    """

    def places(zone: str) -> tuple[str, ...]:
        region = zone.rpartition("-")[0]
        continent = zone.partition("-")[0].replace("northamerica", "us")
        return zone, region, region.rstrip("0123456789"), continent

    def distance(zone: str) -> tuple[bool, ...]:
        pairs = zip(places(zone), places(home), strict=True)
        return (*(one != other for one, other in pairs), not zone.startswith("us-"))

    def is_ai_zone(zone: str) -> bool:
        return len(zone.rpartition("-")[2]) > 1

    return sorted(zones, key=lambda zone: (distance(zone), is_ai_zone(zone), zone))


def versions(api: API | None = None) -> tuple[str, ...]:
    """Runtime versions of Cloud TPU, and families of Compute Engine's images. Those in use today
    first.
    """
    return (*(VERSIONS if api != "compute" else ()), *(IMAGE_FAMILIES if api != "tpu" else ()))


def api_of_version(version: str) -> API | None:
    """What has that image; None if that is not known. A path, such as projects/P/global/images/I,
    is an image of Compute Engine.
    """
    if version in IMAGE_FAMILIES or "/" in version:
        return "compute"
    return "tpu" if version in VERSIONS else None


def image_fits(version: str, accelerator: AcceleratorType) -> bool | None:
    """Whether a TPU of that type works with a runtime image; None if that is not known.

    A wrong one boots, and its JAX finds no TPU.
    """
    machine = accelerator.machine
    if version == accelerator.version or (machine is not None and version == machine.image):
        return True
    if version in IMAGE_FAMILIES:
        return bool(machine and "tpu7x" not in f"{version} {machine.image}")
    old = accelerator.version == GENERATIONS[0].image  # v2 to v4 have one image
    if version in {generation.image for generation in GENERATIONS}:
        return False
    if version == "v2-alpha-tpuv4":
        return accelerator.generation == "v4"
    if version in VERSIONS:  # the older images are for v2 to v4
        return old
    return None


@cache
def _by_name() -> dict[str, AcceleratorType]:
    return {accelerator.name: accelerator for accelerator in types()}


def official_name(name: str) -> str:
    """The catalog's name of a type that is called *name*; others are returned as they are.

    People say "v5e-8", where the API says "v5litepod-8". A machine type of Compute Engine
    ("ct6e-standard-4t") is one host. A generation with a topology ("tpu7x-2x2x2") is a slice.

    >>> [official_name(name) for name in ("v5e-8", "ct6e-standard-4t", "tpu7x-2x2x2", "v6e-4x4")]
    ['v5litepod-8', 'v6e-4', 'tpu7x-16', 'v6e-16']
    """
    if name in _by_name():
        return name
    if (accelerator_type := _of_machine(name)) is not None:
        return accelerator_type.name
    generation, dash, size = name.partition("-")
    if _TOPOLOGY.fullmatch(size):
        accelerator_type = _of_topology(_GOOGLES_NAMES.get(generation, generation), size)
        return accelerator_type.name if accelerator_type is not None else name
    prefixes = {generation.name: generation.prefix for generation in GENERATIONS} | _GOOGLES_NAMES
    return f"{prefixes.get(generation, generation)}{dash}{size}"


def _near(name: str) -> list[str]:
    if (official := official_name(name)) in _by_name():
        return [official]
    from difflib import get_close_matches  # a start does without it

    return get_close_matches(name.lower(), _by_name(), n=3, cutoff=0.6)


def _meaning(chips: int, hosts: int, hbm_gib: int) -> str:
    memory = f"{hbm_gib} GB" if hbm_gib < 10_000 else f"{hbm_gib / 1024:.0f} TB"
    return f"{_count(chips, 'chip')} · {_count(hosts, 'host')} · {memory} HBM"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"

"""Reading the tables: each type with what its name means."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import cache
from math import prod

from .models import AcceleratorType
from .prices import SHIPPED
from .tables import GENERATIONS, SIZES, VERSIONS


class UnknownType(LookupError):
    """No TPU type has that name; the message suggests the nearest ones."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.suggestions = tuple(_near(name))
        sentence = f"The TPU type {name} does not exist."
        if self.suggestions:
            sentence += f" Did you mean {' or '.join(self.suggestions)}?"
        super().__init__(sentence)


@cache
def types() -> tuple[AcceleratorType, ...]:
    """All types, by generation and size."""
    generations = {generation.name: generation for generation in GENERATIONS}
    found = []
    for generation_name, number, topology, chips_per_host, zones in SIZES:
        generation = generations[generation_name]
        chips = prod(int(side) for side in topology.split("x"))
        hosts = chips // chips_per_host
        hbm = chips * generation.hbm_gib_per_chip
        found.append(
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
                config_type=generation.config_type,
                version=generation.image,
                zones=tuple(sorted(zones.split())),
                prices=SHIPPED.region_prices(generation.name, chips, hosts),
            )
        )
    return tuple(found)


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
    sides = topology.split("x")
    chips = prod(int(side) for side in sides)
    for each in types():
        same_form = (each.chips, each.topology.count("x")) == (chips, len(sides) - 1)
        if same_form and generation in (each.generation, each.name.partition("-")[0]):
            return each
    raise UnknownType(f"{generation} with {chips} chips")


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
def zones() -> tuple[str, ...]:
    """All zones with TPUs, as far as known, in alphabetical order."""
    return tuple(sorted({zone for accelerator in types() for zone in accelerator.zones}))


def is_zone(name: str) -> bool:
    """Whether *name* is a zone with TPUs, as far as known."""
    return name in zones()


def types_in(zone: str) -> tuple[AcceleratorType, ...]:
    """The types offered in *zone*, as far as known; empty for a zone that is not known."""
    return tuple(accelerator for accelerator in types() if zone in accelerator.zones)


def nearest_zones(zones: Iterable[str], home: str) -> list[str]:
    """*zones*, the nearest to *home* first: *home* itself, then those of its region
    ("us-central1"), of its part of the continent ("us-central"), of its continent, and of the US.

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

    return sorted(zones, key=lambda zone: (distance(zone), zone))


def versions() -> tuple[str, ...]:
    """Runtime images, those in use today first."""
    return VERSIONS


def image_fits(version: str, accelerator: AcceleratorType) -> bool | None:
    """Whether a TPU of that type works with a runtime image; None if that is not known.

    A wrong one boots, and its JAX finds no TPU.
    """
    if version == accelerator.version:
        return True
    old = accelerator.version == GENERATIONS[0].image  # v2 to v4 have one image
    if version in {each.image for each in GENERATIONS}:
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
    """People say "v5e-8"; the API says "v5litepod-8". Other names are returned as they are."""
    generation, dash, size = name.partition("-")
    prefixes = {each.name: each.prefix for each in GENERATIONS}
    return f"{prefixes.get(generation, generation)}{dash}{size}"


def _near(name: str) -> list[str]:
    if (official := official_name(name)) in _by_name():
        return [official]
    return difflib.get_close_matches(name.lower(), _by_name(), n=3, cutoff=0.6)


def _meaning(chips: int, hosts: int, hbm_gib: int) -> str:
    memory = f"{hbm_gib} GB" if hbm_gib < 10_000 else f"{hbm_gib / 1024:.0f} TB"
    return f"{_count(chips, 'chip')} · {_count(hosts, 'host')} · {memory} HBM"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"

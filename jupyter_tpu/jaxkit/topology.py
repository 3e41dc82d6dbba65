"""The catalog's types in the words of the TPU's compiler, and the memory that a program may use.

The compiler takes a topology by generation, shape and chips per host: "v5litepod-8" is ``v5e:2x4``
with all eight chips on one host; ``v5e:2x4`` alone means two hosts. It also has to be told which
slices have wrap-around links: without them it chooses other collectives, which need more memory.
The usable memory is what libtpu 0.0.42.1 and 0.0.50.1 state when a program does not fit: the
smaller, where they differ by 0.01 GiB. scripts/compiler_facts.py compares.
"""

from __future__ import annotations

from math import prod
from typing import Any

from msgspec import Struct

from ..catalog import (
    AcceleratorType,
    UnknownType,
    accelerator_type,
    announced_generation,
    official_name,
)
from ..errors import InvalidInput

#: GiB of HBM a program may use on one device (v4: a megacore of two; tpu7x: a core).
_USABLE_GIB = {
    "v2": 7.48,
    "v3": 15.48,
    "v4": 30.75,
    "v5e": 15.75,
    "v5p": 95.73,
    "v6e": 31.24,
    "tpu7x": 94.74,
}


#: What a device is called, and its TensorCores.
_DEVICES = {
    "v2": ("TPU v2", 1),
    "v3": ("TPU v3", 1),
    "v4": ("TPU v4", 2),
    "v5e": ("TPU v5 lite", 1),
    "v5p": ("TPU v5", 2),
    "v6e": ("TPU v6 lite", 1),
    "tpu7x": ("TPU7x", 1),
}
#: From the oldest on.
GENERATIONS = tuple(_USABLE_GIB)


class Topology(Struct, kw_only=True, frozen=True):
    """A TPU as its compiler knows it."""

    type: str
    generation: str
    name: str  # "v5e:2x4"
    options: dict[str, Any]  # for jax.experimental.topologies.get_topology_desc
    devices: int
    hosts: int
    hbm_bytes: int  # usable, per device

    @property
    def shape(self) -> str:
        """Its chips: "2x4"."""
        return self.name.partition(":")[2]

    @property
    def device_kind(self) -> str:
        """What JAX calls its devices."""
        return _DEVICES[self.generation][0]

    @property
    def cores(self) -> int:
        """TensorCores of a device."""
        return _DEVICES[self.generation][1]

    @property
    def is_torus(self) -> bool:
        """Whether each dimension has links from its last chip to its first one."""
        return "wrap" in self.options


def topology(name: str) -> Topology:
    """The topology of the catalog's type *name* ("v5litepod-8", "v5e-8") or of "tpu7x-2x2x1".

    The compiler knows more topologies of TPU7x than the catalog. Raises `InvalidInput` with similar
    names.
    """
    if isinstance(name, str) and name.startswith("tpu7x-") and "x" in name.removeprefix("tpu7x-"):
        return _tpu7x(name)
    kind = known_type(name)
    options: dict[str, Any] = {}
    if kind.generation in ("v5e", "v6e"):
        options["chips_per_host_bounds"] = _host_bounds(kind.chips_per_host)
    elif kind.generation == "v4":
        options["chip_config_name"] = "megacore"
    options |= _links(kind.generation, kind.topology)
    return Topology(
        type=kind.name,
        generation=kind.generation,
        name=f"{kind.generation}:{kind.topology}",
        options=options,
        devices=kind.devices,
        hosts=kind.hosts,
        hbm_bytes=usable_hbm(kind.generation),
    )


def generation_of(name: str) -> str:
    """The generation *name* ("v5e"), or that of the type *name* ("v5litepod-8").

    Raises `InvalidInput` with the generations, or with similar types.
    """
    if name in GENERATIONS:
        return name
    if isinstance(name, str) and ("-" in name or announced_generation(name)):
        return topology(name).generation
    raise InvalidInput(
        f"Unknown TPU generation {str(name)[:60]!r}.",
        f"Use a type such as v5litepod-8, or one of {', '.join(GENERATIONS)}.",
    )


def known_type(name: str) -> AcceleratorType:
    """The catalog's type, also as "v5e-8"; raises `InvalidInput` with similar names."""
    try:
        return accelerator_type(official_name(name))
    except UnknownType as error:
        hint = (
            f"No compiler knows {error.announced} either: libtpu 0.0.50.1 has no such topology. "
            "Plan with another generation."
        )
        raise InvalidInput(str(error), hint if error.announced else "") from None


def usable_hbm(generation: str) -> int:
    """Bytes of HBM that a program may use on one device of *generation*."""
    return int(_USABLE_GIB[generation] * 2**30)


def _host_bounds(chips: int) -> tuple[int, int, int]:
    return {1: (1, 1, 1), 4: (2, 2, 1), 8: (2, 4, 1)}[chips]


def _links(generation: str, shape: str) -> dict[str, Any]:
    """The option for a torus; {} for a mesh.

    Cubes of 4×4×4 chips are joined to a torus (https://docs.cloud.google.com/tpu/docs/v4, v5p,
    tpu7x). Of v5e and v6e only the whole pod of 16×16 is one. The compiler wants three numbers.
    """
    sides = [int(side) for side in shape.split("x")]
    if len(sides) == 3 and all(side % 4 == 0 for side in sides):
        return {"wrap": (True, True, True)}
    if generation in ("v5e", "v6e") and sides == [16, 16]:
        return {"wrap": (True, True, False)}
    return {}


def _tpu7x(name: str) -> Topology:
    sides = name.removeprefix("tpu7x-").split("x")
    if not all(side.isdigit() and 0 < int(side) <= 24 for side in sides) or len(sides) != 3:
        raise InvalidInput(
            f"The TPU type {name} does not exist.", "Write TPU7x types as tpu7x-2x2x1."
        )
    chips = prod(int(side) for side in sides)
    return Topology(
        type=name,
        generation="tpu7x",
        name=f"tpu7x:{'x'.join(sides)}",
        options=_links("tpu7x", "x".join(sides)),
        devices=2 * chips,
        hosts=max(1, chips // 4),
        hbm_bytes=usable_hbm("tpu7x"),
    )

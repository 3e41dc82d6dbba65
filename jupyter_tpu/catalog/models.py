"""What the catalog hands out."""

from __future__ import annotations

from msgspec import Struct


class RegionPrice(Struct, kw_only=True, frozen=True):
    """What an hour of a type costs in one region, in USD: a dated list price."""

    region: str  # "us-west4"
    on_demand: float
    spot: float | None  # None: not known
    date: str  # when that was the price: "2024-12-23", or the year


class ChipPrice(Struct, frozen=True):
    """What an hour of one chip costs in one region, in USD."""

    name: str  # "v5e"; "v2 pod" where a slice of a pod has another price than one host alone
    region: str
    on_demand: float
    spot: float | None  # None: not known
    date: str  # when that was the price


class AcceleratorType(Struct, kw_only=True, frozen=True):
    """A TPU type and what its name means."""

    name: str  # "v5litepod-8"
    generation: str  # "v5e"
    meaning: str  # "8 chips · 1 host · 128 GB HBM"
    chips: int
    hosts: int
    chips_per_host: int
    devices: int  # what jax.devices() lists over all hosts
    devices_per_host: int
    hbm_gib: float  # over all chips
    topology: str  # "2x4"
    config_type: str  # AcceleratorConfig.Type: "V5LITE_POD"
    version: str  # the runtime image that fits it
    zones: tuple[str, ...]  # where it is offered, as far as known
    prices: tuple[RegionPrice, ...]  # for the regions whose price is known

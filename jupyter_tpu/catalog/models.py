"""What the catalog hands out."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

#: Google's control planes for TPUs: the Cloud TPU API, and Compute Engine. A TPU that one of them
#: made can't be managed by the other.
API = Literal["tpu", "compute"]
API_NAMES: dict[API, str] = {"tpu": "The Cloud TPU API", "compute": "Compute Engine"}


class RegionPrice(Struct, kw_only=True, frozen=True):
    """What an hour of a type costs in one region, in USD: a dated list price."""

    region: str  # "us-west4"
    on_demand: float
    spot: float | None  # None: not known
    date: str  # when that was the price: "2024-12-23", the month or the year
    flex_start: float | None = None


class ChipPrice(Struct, frozen=True):
    """What an hour of one chip costs in one region, in USD."""

    name: str  # "v5e"; "v2 pod" where a slice of a pod has another price than one host alone
    region: str
    on_demand: float
    spot: float | None  # None: not known
    date: str  # when that was the price
    flex_start: float | None = None


class MachineShape(Struct, kw_only=True, frozen=True):
    """How Compute Engine makes a TPU type."""

    machine_type: str  # of each host: "ct6e-standard-4t"
    topology: str  # of several hosts, which form a slice; "" of one host
    image: str  # the family of images that fits
    zones: tuple[str, ...]  # as far as known


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
    config_type: str  # AcceleratorConfig.Type: "V5LITE_POD"; "" where Cloud TPU does not have it
    #: Cloud TPU's runtime version that fits it, or Compute Engine's image if only that has it.
    version: str
    zones: tuple[str, ...]  # where it is offered, as far as known
    prices: tuple[RegionPrice, ...]  # for the regions whose price is known
    tpu_zones: tuple[str, ...] = ()  # where Cloud TPU offers it
    machine: MachineShape | None = None  # None where Compute Engine does not have it
    #: Another type with as many chips of the generation, on another number of hosts; "" if there is
    #: none.
    other_form: str = ""

    def zones_of(self, api: API | None = None) -> tuple[str, ...]:
        """Where *api* offers it, or at least one of them."""
        if api == "tpu":
            return self.tpu_zones
        if api == "compute":
            return self.machine.zones if self.machine is not None else ()
        return self.zones

    def apis(self, zone: str = "") -> tuple[API, ...]:
        """What can make it: in *zone*, or anywhere. As far as known."""
        known: tuple[API, ...] = ("tpu", "compute")
        return tuple(
            api for api in known if (zone in self.zones_of(api) if zone else self.zones_of(api))
        )

    def version_of(self, api: API) -> str:
        """The image that fits it there."""
        return self.machine.image if api == "compute" and self.machine else self.version

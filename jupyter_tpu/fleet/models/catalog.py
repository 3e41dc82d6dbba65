"""What can be created."""

from __future__ import annotations

from msgspec import Struct

from ... import catalog
from ...catalog import AcceleratorType, ChipPrice, UnknownType
from .core import Problem


class Catalog(Struct, kw_only=True):
    types: list[AcceleratorType]
    zones: list[str]
    versions: list[str]
    project: str
    default_zone: str
    #: By the type's name: the default zone, or the nearest to it that offers the type.
    suggested_zones: dict[str, str]
    emulated: bool
    #: "google" or "emulator:<id>": tells another process whether it uses the same cloud.
    cloud: str = ""
    #: Why it may be incomplete or outdated.
    problem: Problem | None = None


def known_type(name: str) -> AcceleratorType | None:
    """A type as the catalog describes it; None if it is not there."""
    try:
        return catalog.accelerator_type(name)
    except UnknownType:
        return None


def image_warning(version: str, type: str) -> str:
    """A sentence about a runtime version with which JAX would find no TPU; "" of any other."""
    accelerator = known_type(type)
    if accelerator is None or catalog.image_fits(version, accelerator) is not False:
        return ""
    return (
        f"The runtime version {version} does not fit {type}: JAX would find no TPU. "
        f"{accelerator.version} fits."
    )


class PriceList(Struct, kw_only=True):
    """Prices per chip and hour, in USD. What is about to be created costs so much, about."""

    #: When Google's Cloud Billing Catalog was last read; "" if it never was: all are shipped ones.
    read: str = ""
    prices: list[ChipPrice]
    #: Descriptions of prices for TPUs that were not understood, so that they are not in *prices*.
    unknown: list[str] = []

"""Pure data and its reading: types, chips, hosts, HBM, images, zones and dated prices."""

from .lookup import (
    UnknownType,
    accelerator_type,
    is_zone,
    official_name,
    types,
    types_in,
    versions,
    zones,
)
from .models import AcceleratorType, RegionPrice
from .prices import PRICES_READ, PRICES_SOURCE, price_in, usd, usd_per_hour

__all__ = [
    "PRICES_READ",
    "PRICES_SOURCE",
    "AcceleratorType",
    "RegionPrice",
    "UnknownType",
    "accelerator_type",
    "is_zone",
    "official_name",
    "price_in",
    "types",
    "types_in",
    "usd",
    "usd_per_hour",
    "versions",
    "zones",
]

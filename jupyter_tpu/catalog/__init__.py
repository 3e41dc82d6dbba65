"""Pure data and its reading: types, chips, hosts, HBM, images, zones and dated prices."""

from .lookup import (
    UnknownType,
    accelerator_type,
    image_fits,
    is_zone,
    nearest_zones,
    official_name,
    type_of_topology,
    types,
    types_in,
    unlisted_type,
    versions,
    zones,
)
from .models import AcceleratorType, ChipPrice, RegionPrice
from .peaks import PEAKS_READ, PEAKS_SOURCE, ChipPeak, chip_peak
from .prices import PRICES_READ, PRICES_SOURCE, SHIPPED, PriceTable, price_in, usd, usd_per_hour

__all__ = [
    "PEAKS_READ",
    "PEAKS_SOURCE",
    "PRICES_READ",
    "PRICES_SOURCE",
    "SHIPPED",
    "AcceleratorType",
    "ChipPeak",
    "ChipPrice",
    "PriceTable",
    "RegionPrice",
    "UnknownType",
    "accelerator_type",
    "chip_peak",
    "image_fits",
    "is_zone",
    "nearest_zones",
    "official_name",
    "price_in",
    "type_of_topology",
    "types",
    "types_in",
    "unlisted_type",
    "usd",
    "usd_per_hour",
    "versions",
    "zones",
]

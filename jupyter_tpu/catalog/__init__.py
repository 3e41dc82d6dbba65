"""Pure data and its reading: types, chips, hosts, HBM, images, zones and dated prices."""

from .lookup import UnknownType, accelerator_type, is_zone, types, types_in, versions, zones
from .models import AcceleratorType
from .prices import PRICES_READ, PRICES_SOURCE, usd_per_hour

__all__ = [
    "PRICES_READ",
    "PRICES_SOURCE",
    "AcceleratorType",
    "UnknownType",
    "accelerator_type",
    "is_zone",
    "types",
    "types_in",
    "usd_per_hour",
    "versions",
    "zones",
]

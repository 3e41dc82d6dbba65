"""Pure data and its reading: types, chips, hosts, HBM, images, zones and dated prices."""

from .lookup import (
    UnknownType,
    accelerator_type,
    announced_generation,
    api_of_version,
    image_fits,
    is_machine_type,
    is_zone,
    nearest_zones,
    official_name,
    type_of_machine,
    type_of_topology,
    types,
    types_in,
    unlisted_type,
    versions,
    zones,
)
from .models import API, API_NAMES, AcceleratorType, ChipPrice, MachineShape, RegionPrice
from .prices import PRICES_READ, PRICES_SOURCE, SHIPPED, PriceTable, price_in, usd, usd_per_hour
from .tables import IMAGE_FAMILIES, IMAGE_PROJECT, PEAKS_READ, PEAKS_SOURCE, ChipPeak, chip_peak

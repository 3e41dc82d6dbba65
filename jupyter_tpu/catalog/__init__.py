"""Pure data and its reading: types, chips, hosts, HBM, images and zones.

Dated prices belong here too, as a file beside ``tables.py``.
"""

from .models import AcceleratorType
from .reading import UnknownType, accelerator_type, is_zone, types, types_in, versions, zones

__all__ = [
    "AcceleratorType",
    "UnknownType",
    "accelerator_type",
    "is_zone",
    "types",
    "types_in",
    "versions",
    "zones",
]

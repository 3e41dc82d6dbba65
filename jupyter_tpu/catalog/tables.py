"""The tables of Cloud TPU: generations, sizes, zones and images, as data to be read by eye.

Sources: Google's pages on TPU configurations, versions, zones and runtime images
(cloud.google.com/tpu/docs: v2…v6e, supported-tpu-configurations, regions-zones, runtimes).
The lists of zones are what is publicly known; a project may see more or fewer, and the API's own
answer (locations, acceleratorTypes) comes first where there is one. TPU7x is absent on purpose:
the Cloud TPU API does not offer it.
"""

from __future__ import annotations

from msgspec import Struct


class Generation(Struct, kw_only=True, frozen=True):
    """What all types of one TPU generation have in common."""

    name: str  # "v5e"
    prefix: str  # of the types' names: "v5litepod"
    config_type: str  # AcceleratorConfig.Type
    devices_per_chip: int  # what jax.devices() lists for one chip
    hbm_gib_per_chip: int
    image: str  # the runtime image that fits


GENERATIONS: tuple[Generation, ...] = (
    Generation(
        name="v2",
        prefix="v2",
        config_type="V2",
        devices_per_chip=2,
        hbm_gib_per_chip=16,
        image="tpu-ubuntu2204-base",
    ),
    Generation(
        name="v3",
        prefix="v3",
        config_type="V3",
        devices_per_chip=2,
        hbm_gib_per_chip=32,
        image="tpu-ubuntu2204-base",
    ),
    Generation(
        name="v4",
        prefix="v4",
        config_type="V4",
        devices_per_chip=1,
        hbm_gib_per_chip=32,
        image="tpu-ubuntu2204-base",
    ),
    Generation(
        name="v5e",
        prefix="v5litepod",
        config_type="V5LITE_POD",
        devices_per_chip=1,
        hbm_gib_per_chip=16,
        image="v2-alpha-tpuv5-lite",
    ),
    Generation(
        name="v5p",
        prefix="v5p",
        config_type="V5P",
        devices_per_chip=1,
        hbm_gib_per_chip=95,
        image="v2-alpha-tpuv5",
    ),
    Generation(
        name="v6e",
        prefix="v6e",
        config_type="V6E",
        devices_per_chip=1,
        hbm_gib_per_chip=32,
        image="v2-alpha-tpuv6e",
    ),
)

_V2_SINGLE = "us-central1-b us-central1-c us-central1-f europe-west4-a asia-east1-c"
_V2_PODS = "us-central1-a europe-west4-a"
_V3_SINGLE = "us-central1-a us-central1-b europe-west4-a"
_V3_PODS = "europe-west4-a"
_V4 = "us-central2-b"
_V5E = (
    "us-central1-a us-south1-a us-west1-c us-west4-a us-east5-a us-east5-b us-east5-c "
    "europe-west4-a europe-west4-b"
)
_V5P = "us-central1-a us-east5-a europe-west4-b"
_V6E = (
    "us-central1-b us-east1-d us-east5-a us-east5-b europe-west4-a asia-northeast1-b "
    "southamerica-west1-a"
)

#: (generation, number in the name, topology, chips per host, zones). A pod's hosts have 4 chips.
#: v5p comes in every multiple of 128 beyond 128; those with compact tori are listed.
SIZES: tuple[tuple[str, int, str, int, str], ...] = (
    ("v2", 8, "2x2", 4, _V2_SINGLE),
    ("v2", 32, "4x4", 4, _V2_PODS),
    ("v2", 128, "8x8", 4, _V2_PODS),
    ("v2", 256, "8x16", 4, _V2_PODS),
    ("v2", 512, "16x16", 4, _V2_PODS),
    ("v3", 8, "2x2", 4, _V3_SINGLE),
    ("v3", 32, "4x4", 4, _V3_PODS),
    ("v3", 64, "4x8", 4, _V3_PODS),
    ("v3", 128, "8x8", 4, _V3_PODS),
    ("v3", 256, "8x16", 4, _V3_PODS),
    ("v3", 512, "16x16", 4, _V3_PODS),
    ("v3", 1024, "16x32", 4, _V3_PODS),
    ("v3", 2048, "32x32", 4, _V3_PODS),
    ("v4", 8, "2x2x1", 4, _V4),
    ("v4", 16, "2x2x2", 4, _V4),
    ("v4", 32, "2x2x4", 4, _V4),
    ("v4", 64, "2x4x4", 4, _V4),
    ("v4", 128, "4x4x4", 4, _V4),
    ("v4", 256, "4x4x8", 4, _V4),
    ("v4", 512, "4x8x8", 4, _V4),
    ("v4", 1024, "8x8x8", 4, _V4),
    ("v4", 2048, "8x8x16", 4, _V4),
    ("v4", 4096, "8x16x16", 4, _V4),
    ("v5e", 1, "1x1", 1, _V5E),
    ("v5e", 4, "2x2", 4, _V5E),
    ("v5e", 8, "2x4", 8, _V5E),
    ("v5e", 16, "4x4", 4, _V5E),
    ("v5e", 32, "4x8", 4, _V5E),
    ("v5e", 64, "8x8", 4, _V5E),
    ("v5e", 128, "8x16", 4, _V5E),
    ("v5e", 256, "16x16", 4, _V5E),
    ("v5p", 8, "2x2x1", 4, _V5P),
    ("v5p", 16, "2x2x2", 4, _V5P),
    ("v5p", 32, "2x2x4", 4, _V5P),
    ("v5p", 64, "2x4x4", 4, _V5P),
    ("v5p", 128, "4x4x4", 4, _V5P),
    ("v5p", 256, "4x4x8", 4, _V5P),
    ("v5p", 384, "4x4x12", 4, _V5P),
    ("v5p", 512, "4x8x8", 4, _V5P),
    ("v5p", 640, "4x4x20", 4, _V5P),
    ("v5p", 768, "4x8x12", 4, _V5P),
    ("v5p", 896, "4x4x28", 4, _V5P),
    ("v5p", 1024, "8x8x8", 4, _V5P),
    ("v5p", 1280, "4x8x20", 4, _V5P),
    ("v5p", 1536, "8x8x12", 4, _V5P),
    ("v5p", 2048, "8x8x16", 4, _V5P),
    ("v5p", 2560, "8x8x20", 4, _V5P),
    ("v5p", 3072, "8x12x16", 4, _V5P),
    ("v5p", 4096, "8x16x16", 4, _V5P),
    ("v5p", 6144, "12x16x16", 4, _V5P),
    ("v5p", 8192, "16x16x16", 4, _V5P),
    ("v5p", 12288, "16x16x24", 4, _V5P),
    ("v6e", 1, "1x1", 1, _V6E),
    ("v6e", 4, "2x2", 4, _V6E),
    ("v6e", 8, "2x4", 8, _V6E),
    ("v6e", 16, "4x4", 4, _V6E),
    ("v6e", 32, "4x8", 4, _V6E),
    ("v6e", 64, "8x8", 4, _V6E),
    ("v6e", 128, "8x16", 4, _V6E),
    ("v6e", 256, "16x16", 4, _V6E),
)

#: Runtime images, those in use today first; the API does not refuse one that does not fit a type.
VERSIONS: tuple[str, ...] = (
    "tpu-ubuntu2204-base",
    "v2-alpha-tpuv5-lite",
    "v2-alpha-tpuv5",
    "v2-alpha-tpuv6e",
    "v2-alpha-tpuv4",
    "v2-alpha",
    "tpu-vm-base",
    "tpu-vm-tf-2.18.0-pjrt",
    "tpu-vm-tf-2.18.0-pod-pjrt",
    "tpu-vm-tf-2.17.0-pjrt",
    "tpu-vm-tf-2.17.0-pod-pjrt",
)

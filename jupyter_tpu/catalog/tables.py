"""The tables of TPUs: generations, sizes, zones, images and peak figures, as data to be read by
eye.

Sources: Google's pages on TPU configurations, versions, zones and runtime images
(cloud.google.com/tpu/docs: v2…v6e, supported-tpu-configurations, regions-zones, runtimes), and on
TPUs in Compute Engine (docs.cloud.google.com/compute/docs/tpus/tpu-machines). Of AI zones, the page
on zones has us-south1-ai1b for v6e, and "us-central1-ai1", which is no zone's name: they end in a
letter, as us-central1-ai1a does, which has TPU7x.
The lists of zones are what is publicly known; a project may see more or fewer, and the APIs' own
answers (locations, acceleratorTypes, machineTypes) come first where there are some.
"""

from __future__ import annotations

from msgspec import Struct

_UBUNTU_22 = "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"
_UBUNTU_24 = "ubuntu-accel-2404-amd64-tpu-tpu7x"
#: The project that has Compute Engine's images for TPUs.
IMAGE_PROJECT = "ubuntu-os-accelerator-images"
#: Families of those images, those in use today first.
IMAGE_FAMILIES = (
    _UBUNTU_24,
    _UBUNTU_22,
    "ubuntu-accelerator-2204-amd64-with-tpu-v5e-v5p-v6e",  # an older spelling
)


class Generation(Struct, kw_only=True, frozen=True):
    """What all types of one TPU generation have in common."""

    name: str  # "v5e"
    prefix: str  # of the types' names: "v5litepod"
    config_type: str  # AcceleratorConfig.Type
    devices_per_chip: int  # what jax.devices() lists for one chip
    hbm_gib_per_chip: int
    image: str  # Cloud TPU's runtime version that fits; "" where it does not have the generation
    machine: str = ""  # how Compute Engine's machine types begin; "" where it does not have it
    machine_image: str = ""  # the family of Compute Engine's images that fits
    machine_zones: str = ""  # where Compute Engine has it


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
        machine="ct5p-hightpu",
        machine_image=_UBUNTU_22,
        machine_zones="us-central1-a us-east5-a europe-west4-b",
    ),
    Generation(
        name="v6e",
        prefix="v6e",
        config_type="V6E",
        devices_per_chip=1,
        hbm_gib_per_chip=32,
        image="v2-alpha-tpuv6e",
        machine="ct6e-standard",
        machine_image=_UBUNTU_22,
        machine_zones="us-central1-b us-east1-d us-east5-a us-east5-b us-south1-ai1b "
        "europe-west4-a asia-northeast1-b southamerica-west1-a",
    ),
    Generation(
        name="tpu7x",
        prefix="tpu7x",
        config_type="",
        devices_per_chip=2,
        hbm_gib_per_chip=192,
        image="",
        machine="tpu7x-standard",
        machine_image=_UBUNTU_24,
        machine_zones="us-central1-c us-central1-ai1a",
    ),
)

#: Generations that Google has announced (cloud.google.com/blog, 2026-04-22), and of which it had
#: published no type, zone or price on that day: none is made up here.
ANNOUNCED = {"tpu8t": "TPU 8t", "tpu8i": "TPU 8i"}
ANNOUNCED_READ = "2026-11-29"

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

#: (generation, number in the name, topology, chips per host, Cloud TPU's zones). A pod's hosts have
#: 4 chips. v5p comes in every multiple of 128 beyond 128; those with compact tori are listed. A
#: name with a topology in place of the number is for what only Compute Engine has: of v6e with 8
#: chips, it has one host or two.
SIZES: tuple[tuple[str, int | str, str, int, str], ...] = (
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
    ("v6e", "2x4", "2x4", 4, ""),
    ("v6e", 16, "4x4", 4, _V6E),
    ("v6e", 32, "4x8", 4, _V6E),
    ("v6e", 64, "8x8", 4, _V6E),
    ("v6e", 128, "8x16", 4, _V6E),
    ("v6e", 256, "16x16", 4, _V6E),
    ("tpu7x", 8, "2x2x1", 4, ""),
    ("tpu7x", 16, "2x2x2", 4, ""),
    ("tpu7x", 32, "2x2x4", 4, ""),
    ("tpu7x", 64, "2x4x4", 4, ""),
    ("tpu7x", 128, "4x4x4", 4, ""),
    ("tpu7x", 256, "4x4x8", 4, ""),
    ("tpu7x", 512, "4x8x8", 4, ""),
    ("tpu7x", 1024, "8x8x8", 4, ""),
    ("tpu7x", 2048, "8x8x16", 4, ""),
    ("tpu7x", 4096, "8x16x16", 4, ""),
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


PEAKS_READ = "2026-11-25"
PEAKS_SOURCE = "Google's published peak figures per chip (cloud.google.com/tpu/docs)"


class ChipPeak(Struct, kw_only=True, frozen=True):
    """What one chip can do at most."""

    bf16_flops: float  # a second, multiply and add counted as two
    hbm_bytes: float  # a second, read and written together
    ici_bytes: float  # a second over all ports, both directions together
    ici_ports: int  # two for each dimension of the torus


#: Google's pages differ: of v5e they have 819 and 800 GB/s of HBM, of v6e 1638 and 1600. The links
#: of v5e have 400 GB/s (both directions) on one page, and 1600 Gbit/s (one) on another. JAX's
#: sources have 2460 GB/s of HBM for v5p (scripts/compiler_facts.py shows both).
#: No ICI bandwidth of a v4 chip is published, but the all-reduce bandwidth of a pod: 1.1 PB/s
#: for 4096 chips. That of v5e, 51.2 TB/s for 256 chips, is half of its 400 GB/s a chip, which count
#: both directions. So v4 has twice its share here, too.
_PEAKS = {
    "v4": ChipPeak(bf16_flops=275e12, hbm_bytes=1228e9, ici_bytes=537e9, ici_ports=6),
    "v5e": ChipPeak(bf16_flops=197e12, hbm_bytes=819e9, ici_bytes=400e9, ici_ports=4),
    "v5p": ChipPeak(bf16_flops=459e12, hbm_bytes=2765e9, ici_bytes=1200e9, ici_ports=6),
    "v6e": ChipPeak(bf16_flops=918e12, hbm_bytes=1638e9, ici_bytes=800e9, ici_ports=4),
    "tpu7x": ChipPeak(bf16_flops=2307e12, hbm_bytes=7380e9, ici_bytes=1200e9, ici_ports=6),
}


def chip_peak(generation: str) -> ChipPeak | None:
    """The peak figures of a chip of *generation* ("v5e"); None if they are not known."""
    return _PEAKS.get(generation)

"""What Google says of quotas, and which images fit which types."""

from typing import Any

import pytest

from jupyter_tpu.catalog import accelerator_type, image_fits, types
from jupyter_tpu.cloud.preflight import understand_quotas

ZONE = "us-west4-a"


def info(name: str, value: int, *places: str) -> dict[str, Any]:
    return {
        "quotaId": name,
        "dimensionsInfos": [{"details": {"value": str(value)}, "applicableLocations": [*places]}],
    }


INFOS = [
    info("TPUV5sLitepodPerProjectPerZoneForTPUAPI", 16, ZONE),
    info("TPUV5sLitepodPerProjectPerZoneForTPUAPI", 4, "us-central1-a"),
    info("TPUV5sPreemptibleLitepodPerProjectPerRegionForTPUAPI", 64, "us-west4"),
    info("TPUV6EPreemptiblePerProjectPerRegionForTPUAPI", 0, "us-west4"),
    info("TPUV2sPodPerProjectPerZoneForTPUAPI", 32, "global"),
    {"quotaId": "TPUV3sPerProject", "dimensionsInfos": [{"details": {}}]},
]


@pytest.mark.parametrize(
    ("generation", "tier", "limits"),
    [
        ("v5e", "on-demand", [16]),
        ("v5e", "spot", [64]),
        ("v5e", "flex-start", [64]),
        ("v6e", "spot", [0]),
        ("v6e", "on-demand", []),
        ("v2", "on-demand", [32]),
        ("v3", "on-demand", []),
        ("v5p", "on-demand", []),
    ],
)
def test_the_quota_is_that_of_the_generation_the_tier_and_the_place(generation, tier, limits):
    quotas = understand_quotas(INFOS, generation=generation, tier=tier, zone=ZONE)
    assert [quota.limit for quota in quotas] == limits


@pytest.mark.parametrize(
    ("version", "type", "fits"),
    [
        ("v2-alpha-tpuv5", "v5litepod-8", False),
        ("tpu-ubuntu2204-base", "v6e-8", False),
        ("tpu-vm-base", "v5p-8", False),
        ("tpu-vm-tf-2.18.0-pjrt", "v3-8", True),
        ("v2-alpha-tpuv4", "v4-8", True),
        ("v2-alpha-tpuv4", "v3-8", False),
        ("my-own-image", "v4-8", None),
    ],
)
def test_an_image_of_another_generation_does_not_fit(version, type, fits):
    assert image_fits(version, accelerator_type(type)) is fits


def test_the_usual_image_of_each_type_fits():
    assert all(image_fits(type.version, type) for type in types())

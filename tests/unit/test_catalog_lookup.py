"""The catalog against rows known from Google's documentation."""

from __future__ import annotations

from math import prod

import pytest

from jupyter_tpu import catalog


@pytest.mark.parametrize(
    ("name", "chips", "hosts", "devices", "topology", "config_type", "meaning"),
    [
        ("v2-8", 4, 1, 8, "2x2", "V2", "4 chips · 1 host · 64 GB HBM"),
        ("v3-8", 4, 1, 8, "2x2", "V3", "4 chips · 1 host · 128 GB HBM"),
        ("v3-32", 16, 4, 32, "4x4", "V3", "16 chips · 4 hosts · 512 GB HBM"),
        ("v4-8", 4, 1, 4, "2x2x1", "V4", "4 chips · 1 host · 128 GB HBM"),
        ("v4-64", 32, 8, 32, "2x4x4", "V4", "32 chips · 8 hosts · 1024 GB HBM"),
        ("v5litepod-1", 1, 1, 1, "1x1", "V5LITE_POD", "1 chip · 1 host · 16 GB HBM"),
        ("v5litepod-8", 8, 1, 8, "2x4", "V5LITE_POD", "8 chips · 1 host · 128 GB HBM"),
        ("v5litepod-16", 16, 4, 16, "4x4", "V5LITE_POD", "16 chips · 4 hosts · 256 GB HBM"),
        ("v5p-8", 4, 1, 4, "2x2x1", "V5P", "4 chips · 1 host · 380 GB HBM"),
        ("v5p-12288", 6144, 1536, 6144, "16x16x24", "V5P", "6144 chips · 1536 hosts · 570 TB HBM"),
        ("v6e-8", 8, 1, 8, "2x4", "V6E", "8 chips · 1 host · 256 GB HBM"),
        ("v6e-256", 256, 64, 256, "16x16", "V6E", "256 chips · 64 hosts · 8192 GB HBM"),
    ],
)
def test_a_type_means_what_google_documents(
    name: str,
    chips: int,
    hosts: int,
    devices: int,
    topology: str,
    config_type: str,
    meaning: str,
) -> None:
    kind = catalog.accelerator_type(name)
    assert (kind.chips, kind.hosts, kind.devices) == (chips, hosts, devices)
    assert (kind.topology, kind.config_type) == (topology, config_type)
    assert kind.meaning == meaning
    assert kind.devices_per_host * kind.hosts == kind.devices


@pytest.mark.parametrize("kind", catalog.types(), ids=lambda kind: kind.name)
def test_the_number_in_a_name_agrees_with_chips_and_topology(kind: catalog.AcceleratorType) -> None:
    number = int(kind.name.rpartition("-")[2])
    counts_cores = kind.generation in ("v2", "v3", "v4", "v5p")
    assert kind.chips == (number // 2 if counts_cores else number)
    assert prod(int(side) for side in kind.topology.split("x")) == kind.chips
    assert kind.hosts * kind.chips_per_host == kind.chips
    assert kind.version in catalog.versions()
    assert kind.zones
    assert all(catalog.is_zone(zone) for zone in kind.zones)


def test_every_zone_offers_something_and_an_unknown_one_nothing() -> None:
    assert "us-central1-a" in catalog.zones()
    assert all(catalog.types_in(zone) for zone in catalog.zones())
    assert catalog.types_in("mars-north1-a") == ()
    assert not catalog.is_zone("mars-north1-a")


def test_the_type_that_fits_a_zone_is_listed_there_only() -> None:
    assert [kind.generation for kind in catalog.types_in("us-central2-b")].count("v4") == 10
    assert "v4-8" not in {kind.name for kind in catalog.types_in("us-central1-a")}


def test_an_unknown_type_suggests_near_ones() -> None:
    with pytest.raises(catalog.UnknownType, match=r"v5e-8 .*Did you mean v5litepod-8\?"):
        catalog.accelerator_type("v5e-8")
    with pytest.raises(catalog.UnknownType, match="v5litepod-4"):
        catalog.accelerator_type("v5litepod4")
    with pytest.raises(LookupError, match=r"The TPU type h100 does not exist\.$"):
        catalog.accelerator_type("h100")


@pytest.mark.parametrize(
    ("name", "zone", "on_demand", "spot"),
    [
        ("v5litepod-8", "us-west4-a", 9.60, 4.08),
        ("v5litepod-8", "europe-west4-b", 12.48, 5.304),
        ("v5p-8", "us-east5-a", 16.80, 6.72),  # 8 cores are 4 chips
        ("v4-8", "us-central2-b", 12.88, None),
        ("v3-8", "europe-west4-a", 8.80, None),
        ("v3-32", "europe-west4-a", 32.0, None),  # a pod's chips have another price
    ],
)
def test_a_price_is_of_all_chips_in_the_region_of_the_zone(
    name: str, zone: str, on_demand: float, spot: float | None
) -> None:
    price = catalog.price_in(catalog.accelerator_type(name), zone)
    assert price is not None
    assert (price.on_demand, price.spot) == (on_demand, spot)
    assert price.region == zone[:-2]
    assert price.date


def test_a_price_that_is_not_known_is_not_made_up() -> None:
    assert catalog.price_in(catalog.accelerator_type("v2-8"), "us-central1-b") is None
    assert catalog.price_in(catalog.accelerator_type("v6e-8"), "southamerica-west1-a") is None

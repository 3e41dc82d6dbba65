"""The catalog against rows known from Google's documentation."""

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
    name, chips, hosts, devices, topology, config_type, meaning
):
    kind = catalog.accelerator_type(name)
    assert (kind.chips, kind.hosts, kind.devices) == (chips, hosts, devices)
    assert (kind.topology, kind.config_type) == (topology, config_type)
    assert kind.meaning == meaning
    assert kind.devices_per_host * kind.hosts == kind.devices


def test_the_number_in_a_name_agrees_with_chips_and_topology():
    for kind in catalog.types():
        size = kind.name.rpartition("-")[2]
        if size.isdecimal():
            counts_cores = kind.generation in ("v2", "v3", "v4", "v5p", "tpu7x")
            assert kind.chips == (int(size) // 2 if counts_cores else int(size)), kind
        else:
            assert size == kind.topology, kind
        assert prod(int(side) for side in kind.topology.split("x")) == kind.chips, kind
        assert kind.hosts * kind.chips_per_host == kind.chips, kind
        assert kind.version in catalog.versions(), kind
        assert kind.zones, kind
        assert all(catalog.is_zone(zone) for zone in kind.zones), kind


@pytest.mark.parametrize(
    ("name", "type", "hosts", "machine", "topology"),
    [
        ("tpu7x-8", "tpu7x-8", 1, "tpu7x-standard-4t", ""),
        ("tpu7x-standard-4t", "tpu7x-8", 1, "tpu7x-standard-4t", ""),
        ("tpu7x-2x2x2", "tpu7x-16", 2, "tpu7x-standard-4t", "2x2x2"),
        ("v7x-16", "tpu7x-16", 2, "tpu7x-standard-4t", "2x2x2"),
        ("ct6e-standard-8t", "v6e-8", 1, "ct6e-standard-8t", ""),
        ("ct6e-standard-4t", "v6e-4", 1, "ct6e-standard-4t", ""),
        ("ct6e-standard-4t-tpu", "v6e-4", 1, "ct6e-standard-4t", ""),
        ("v6e-8", "v6e-8", 1, "ct6e-standard-8t", ""),
        ("v6e-2x4", "v6e-2x4", 2, "ct6e-standard-4t", "2x4"),
        ("v6e-4x4", "v6e-16", 4, "ct6e-standard-4t", "4x4"),
        ("ct5p-hightpu-4t", "v5p-8", 1, "ct5p-hightpu-4t", ""),
        ("v5p-2x2x4", "v5p-32", 4, "ct5p-hightpu-4t", "2x2x4"),
    ],
)
def test_compute_engines_names_of_a_type_are_understood(name, type, hosts, machine, topology):
    kind = catalog.accelerator_type(catalog.official_name(name))
    assert (kind.name, kind.hosts) == (type, hosts)
    assert (kind.machine.machine_type, kind.machine.topology) == (machine, topology)
    assert catalog.type_of_machine(machine, topology) == kind


@pytest.mark.parametrize("name", ["tpu8t-8", "v8t", "8t", "TPU 8t", "tpu8t-standard-4t"])
def test_of_an_announced_generation_nothing_is_made_up(name):
    with pytest.raises(catalog.UnknownType) as caught:
        catalog.accelerator_type(catalog.official_name(name))
    assert str(caught.value).startswith(
        "Google has announced TPU 8t, but has published no types, zones or prices of it"
    )
    assert not any("8" in kind.generation for kind in catalog.types())
    assert catalog.announced_generation("v6e-8") == ""


def test_what_compute_engine_does_not_have_is_no_machine_type():
    assert catalog.is_machine_type("ct6e-standard-4t")
    for name in ("ct5lp-hightpu-4t", "n2-standard-8", "ct6e-standard-3t", "v6e-8"):
        assert not catalog.is_machine_type(name)
    with pytest.raises(catalog.UnknownType, match="ct6e-standard-8t with the topology 4x4"):
        catalog.type_of_machine("ct6e-standard-8t", "4x4")


@pytest.mark.parametrize(
    ("name", "zone", "apis"),
    [
        ("v5litepod-8", "", ("tpu",)),
        ("v4-8", "", ("tpu",)),
        ("v6e-8", "", ("tpu", "compute")),
        ("v6e-8", "us-south1-ai1b", ("compute",)),
        ("v6e-2x4", "", ("compute",)),
        ("v5p-8", "", ("tpu", "compute")),
        ("tpu7x-8", "", ("compute",)),
        ("tpu7x-8", "us-central1-ai1a", ("compute",)),
        ("tpu7x-8", "us-central1-a", ()),
    ],
)
def test_a_type_says_which_control_plane_can_make_it(name, zone, apis):
    assert catalog.accelerator_type(name).apis(zone) == apis


def test_two_forms_of_as_many_chips_name_each_other():
    forms = {kind.name: kind.other_form for kind in catalog.types() if kind.other_form}
    assert forms == {"v6e-8": "v6e-2x4", "v6e-2x4": "v6e-8"}


def test_images_belong_to_one_control_plane_and_to_its_generations():
    v6e, seven = map(catalog.accelerator_type, ("v6e-8", "tpu7x-8"))
    ubuntu_22 = "ubuntu-accelerator-2204-amd64-with-tpu-v5e-v5p-v6e"
    assert catalog.image_fits(ubuntu_22, v6e) is True
    assert catalog.image_fits(ubuntu_22, seven) is False
    assert catalog.image_fits(seven.version, v6e) is False
    assert catalog.image_fits("v2-alpha-tpuv6e", seven) is False
    assert catalog.image_fits(ubuntu_22, catalog.accelerator_type("v5litepod-8")) is False
    assert [
        catalog.api_of_version(version) for version in (ubuntu_22, "v2-alpha-tpuv6e", "mine")
    ] == [
        "compute",
        "tpu",
        None,
    ]
    assert catalog.api_of_version("projects/p/global/images/mine") == "compute"


def test_an_ai_zone_is_near_its_region():
    zones = ["us-central1-ai1a", "us-central1-c", "europe-west4-a"]
    assert catalog.nearest_zones(zones, "us-central1-a")[-1] == "europe-west4-a"


def test_every_zone_offers_something_and_an_unknown_one_nothing():
    assert "us-central1-a" in catalog.zones()
    assert all(catalog.types_in(zone) for zone in catalog.zones())
    assert catalog.types_in("mars-north1-a") == ()
    assert not catalog.is_zone("mars-north1-a")


def test_the_type_that_fits_a_zone_is_listed_there_only():
    assert [kind.generation for kind in catalog.types_in("us-central2-b")].count("v4") == 10
    assert "v4-8" not in {kind.name for kind in catalog.types_in("us-central1-a")}


def test_an_unknown_type_suggests_near_ones():
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
def test_a_price_is_of_all_chips_in_the_region_of_the_zone(name, zone, on_demand, spot):
    price = catalog.price_in(catalog.accelerator_type(name), zone)
    assert (price.on_demand, price.spot) == (on_demand, spot)
    assert price.region == zone[:-2]
    assert price.date


def test_a_price_that_is_not_known_is_not_made_up():
    assert catalog.price_in(catalog.accelerator_type("v2-8"), "us-central1-b") is None
    assert catalog.price_in(catalog.accelerator_type("v6e-8"), "southamerica-west1-a") is None


def test_flex_start_has_a_price_of_its_own_where_one_is_known():
    price = catalog.price_in(catalog.accelerator_type("v6e-8"), "us-east5-a")
    assert (price.on_demand, price.spot, price.flex_start) == (21.6, 11.2264, 10.8)
    assert price.date == "2026-08"
    older = catalog.price_in(catalog.accelerator_type("v6e-8"), "us-central1-b")
    assert older.flex_start is None
    assert catalog.accelerator_type("tpu7x-8").prices == ()

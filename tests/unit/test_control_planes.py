"""Which of Google's control planes makes a TPU: what only one can, the user's choice, the quota."""

import asyncio
from typing import Any

import pytest

from jupyter_tpu import catalog
from jupyter_tpu.catalog import API
from jupyter_tpu.cloud import Cloud, CloudTPU, Target
from jupyter_tpu.cloud.preflight import (
    Quota,
    allowed,
    understand_compute_quotas,
)
from jupyter_tpu.errors import InvalidInput, Reason, TPUError
from jupyter_tpu.fleet.core.checks import check_api
from jupyter_tpu.fleet.lifecycle.availability import Availability
from jupyter_tpu.fleet.lifecycle.choices import API_VARIABLE
from jupyter_tpu.fleet.models import CreateTPU

IMAGE = "ubuntu-accel-2204-amd64-tpu-v5e-v5p-v6e"


class Offers(CloudTPU):
    """What the catalog says of one control plane, or of both."""

    def __init__(self, api: API | None = None) -> None:
        super().__init__(Target(project="p", zone="us-central1-a"))
        self._api = api
        self.disabled = False

    @property
    def apis(self) -> tuple[API, ...]:
        return ("tpu", "compute")

    def of_api(self, api: API) -> Cloud:
        offers = Offers(api)
        offers.disabled = self.disabled and api == "compute"
        return offers

    def _check(self) -> None:
        if self.disabled and self._api is not None:
            raise TPUError("It is disabled.", Reason.PERMISSION)

    async def locations(self) -> tuple[str, ...]:
        self._check()
        return catalog.zones(None if not self.disabled else "tpu")

    async def accelerator_types(self, zone: str) -> tuple[str, ...]:
        self._check()
        return tuple(kind.name for kind in catalog.types_in(zone, self._api))

    async def runtime_versions(self, zone: str) -> tuple[str, ...]:
        self._check()
        return catalog.versions(self._api)


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cloud = Offers()
        self.quota: dict[API, int | None] = {"tpu": 64, "compute": 64}
        self.availability = Availability(self.cloud)

        async def quota(api: API, *_: str) -> int | None:
            return self.quota[api]

        monkeypatch.setattr(self.availability.control_planes, "quota", quota)

    def resolve(self, type: str, zone: str | None = None, **more: Any) -> tuple[CreateTPU, str]:
        request = CreateTPU(name="t", type=type, zone=zone, **more)
        return asyncio.run(self.availability.resolve(request))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.delenv(API_VARIABLE, raising=False)
    return World(monkeypatch)


@pytest.mark.parametrize(
    ("type", "zone", "more", "expected"),
    [
        ("v5litepod-8", "us-west4-a", {}, ("v5litepod-8", "tpu", "v2-alpha-tpuv5-lite")),
        ("tpu7x-8", None, {}, ("tpu7x-8", "compute", "ubuntu-accel-2404-amd64-tpu-tpu7x")),
        ("tpu7x-2x2x2", None, {}, ("tpu7x-16", "compute", "ubuntu-accel-2404-amd64-tpu-tpu7x")),
        ("v6e-8", "us-south1-ai1b", {}, ("v6e-8", "compute", IMAGE)),
        ("v6e-2x4", "us-east5-a", {}, ("v6e-2x4", "compute", IMAGE)),
        ("ct6e-standard-4t", "us-east5-a", {}, ("v6e-4", "compute", IMAGE)),
        ("v6e-8", "us-east5-a", {"version": IMAGE}, ("v6e-8", "compute", IMAGE)),
        (
            "v6e-8",
            "us-east5-a",
            {"version": "v2-alpha-tpuv6e"},
            ("v6e-8", "tpu", "v2-alpha-tpuv6e"),
        ),
    ],
)
def test_what_only_one_can_make_is_made_by_that(world, type, zone, more, expected):
    resolved, reason = world.resolve(type, zone, **more)
    assert (resolved.type, resolved.api, resolved.version) == expected
    assert reason == ""


def test_the_nearest_zone_is_one_that_has_the_type(world):
    assert world.resolve("tpu7x-8")[0].zone == "us-central1-c"


@pytest.mark.parametrize(
    ("tpu", "compute", "api", "said"),
    [
        (64, 0, "tpu", ""),
        (0, 64, "compute", "the Cloud TPU API's quota for v6e (on-demand) in us-east5-a is 0"),
        (0, 0, "tpu", ""),
        (0, -1, "compute", "Compute Engine makes it"),
        (None, None, "tpu", ""),
        (64, 64, "tpu", "Compute Engine can make it, too: --api compute"),
    ],
)
def test_where_both_can_the_quota_decides_and_it_is_said(world, tpu, compute, api, said):
    world.quota = {"tpu": tpu, "compute": compute}
    resolved, reason = world.resolve("v6e-8", "us-east5-a")
    assert resolved.api == api
    assert said in reason
    assert bool(said) == bool(reason)


def test_the_users_choice_comes_before_the_setting_and_that_before_the_quota(world, monkeypatch):
    world.quota = {"tpu": 0, "compute": 64}
    assert world.resolve("v6e-8", "us-east5-a", api="tpu")[0].api == "tpu"
    monkeypatch.setenv(API_VARIABLE, "tpu")
    resolved, reason = world.resolve("v6e-8", "us-east5-a")
    assert (resolved.api, reason) == ("tpu", "The Cloud TPU API makes it, as JUPYTER_TPU_API says.")
    assert world.resolve("v6e-8", "us-east5-a", api="compute")[0].api == "compute"
    assert world.resolve("tpu7x-8")[0].api == "compute"


@pytest.mark.parametrize(
    ("type", "zone", "more", "problem"),
    [
        ("tpu7x-8", "us-central1-c", {"api": "tpu"}, "TPU API does not offer tpu7x-8 in"),
        ("v5litepod-8", "us-east5-a", {"api": "compute"}, "does not offer v5litepod-8"),
        ("ct6e-standard-8t", "us-east5-a", {"api": "tpu"}, "machine type of Compute Engine"),
        ("v6e-8", "us-east5-a", {"api": "tpu", "version": IMAGE}, "image of Compute Engine"),
        ("ct6e-standard-8t", "us-east5-a", {"version": "v2-alpha-tpuv6e"}, "image of the Cloud"),
    ],
)
def test_what_does_not_go_together_is_refused(world, type, zone, more, problem):
    with pytest.raises(InvalidInput, match=problem):
        world.resolve(type, zone, **more)


def test_a_project_that_does_not_use_compute_engine_gets_what_it_got(world):
    world.cloud.disabled = True
    assert world.resolve("v6e-8", "us-east5-a")[0].api == "tpu"


@pytest.mark.parametrize(
    "refused",
    [
        {"type": "v6e-8", "api": "tpu", "disk_gb": 300},
        {"type": "v5p-8", "api": "tpu", "tier": "flex-start", "run_for": 3600},
    ],
)
def test_what_the_cloud_tpu_api_does_not_have_is_refused_before_it_is_asked(refused):
    request = CreateTPU(name="t", **refused)
    with pytest.raises(InvalidInput, match="Cloud TPU API"):
        check_api(request)
    request.api = "compute"
    check_api(request)


# ---- Compute Engine's quotas ------------------------------------------------------------------


def info(id: str, value: int, family: str = "", region: str = "us-east5") -> dict[str, Any]:
    dimensions = {"region": region} | ({"tpu_family": family} if family else {})
    return {
        "quotaId": id,
        "dimensionsInfos": [
            {
                "dimensions": dimensions,
                "details": {"value": str(value)},
                "applicableLocations": [region],
            }
        ],
    }


INFOS = [
    info("TPUS-PER-TPU-FAMILY-per-project-region", 0, "CT6E"),
    info("TPUS-PER-TPU-FAMILY-per-project-region", 16, "TPU7X"),
    info("PREEMPTIBLE-TPU-V6E-per-project-region", 1536),
    info("PREEMPTIBLE-TPU-V6E-per-project-region", 8, region="us-central1"),
    info("TPU-V5P-per-project-region", 32),
    info("CPUS-per-project-region", 0),
]


@pytest.mark.parametrize(
    ("generation", "tier", "limit"),
    [
        ("v6e", "on-demand", 0),
        ("v6e", "spot", 1536),
        ("v6e", "flex-start", 1536),  # that of preemptible TPUs first
        ("tpu7x", "on-demand", 16),
        ("tpu7x", "spot", None),
        ("v5p", "on-demand", 32),
        ("v5e", "on-demand", None),
    ],
)
def test_compute_engines_quotas_are_others(generation, tier, limit):
    quotas = understand_compute_quotas(INFOS, generation=generation, tier=tier, zone="us-east5-a")
    assert allowed(quotas, tier) == limit


def test_flex_start_is_allowed_by_either_quota():
    def quota(limit: int, *, preemptible: bool) -> Quota:
        return Quota(name="q", place="", limit=limit, preemptible=preemptible)

    none, some = quota(0, preemptible=True), quota(32, preemptible=False)
    assert allowed([none, some], "flex-start") == 32
    assert allowed([none, quota(-1, preemptible=False)], "flex-start") == -1
    assert allowed([none], "flex-start") == 0
    assert allowed([], "flex-start") is None

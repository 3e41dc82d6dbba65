"""Before there is a TPU: what is checked, and prices that are read anew, against the emulator."""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from refusals import raises

from jupyter_tpu.cloud import CloudTPU, Target, billing
from jupyter_tpu.cloud.google_apis import GoogleAPIs
from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.fleet import Fleet
from jupyter_tpu.fleet.models import AddSSHKey, CheckSetup, Diagnosis, SetUpNetwork
from jupyter_tpu.kernels import KernelSpecs
from jupyter_tpu.links import Links

ZONE = "us-west4-a"
COMPUTE = "/compute/v1/projects/emulated/global"


@pytest_asyncio.fixture
async def fleet(emulator: Any, tmp_path: Path) -> AsyncIterator[Fleet]:
    async with opened(emulator, tmp_path) as fleet:
        yield fleet


@contextlib.asynccontextmanager
async def opened(emulator: Any, folder: Path, project: str | None = None) -> AsyncIterator[Fleet]:
    links = Links(CloudTPU(Target(emulator=str(emulator.state_file), project=project)))
    specs = KernelSpecs(folder / "kernels")
    fleet = await Fleet.open(links, specs, folder / "fleet.sqlite", supervise=False)
    yield fleet
    await fleet.close()
    await links.close()
    await links.cloud.close()


def states(diagnosis: Diagnosis) -> dict[str, str]:
    return {finding.check: finding.state for finding in diagnosis.findings}


def finding(diagnosis: Diagnosis, check: str) -> str:
    (one,) = (finding for finding in diagnosis.findings if finding.check == check)
    return f"{one.message} {one.hint}"


async def test_what_keeps_a_tpu_from_being_created_is_found_before(fleet, faults):
    request = CheckSetup(type="v5litepod-8", zone=ZONE)
    diagnosis = await fleet.doctor.preflight(request)
    assert diagnosis.healthy
    fine = ("api", "key", "permission", "type", "image", "quota")
    assert dict.fromkeys(fine, "ok").items() <= states(diagnosis).items()

    faults(kind="permission")
    faults(kind="quota", zone=ZONE, type="v5e", chips=0)
    diagnosis = await fleet.doctor.preflight(
        CheckSetup(type="v5litepod-8", zone=ZONE, version="v2-alpha-tpuv6e")
    )
    assert not diagnosis.healthy
    assert "tpu.nodes.create, tpu.nodes.delete" in finding(diagnosis, "permission")
    assert "--role roles/tpu.admin" in finding(diagnosis, "permission")
    assert "for v5e (on-demand) in us-west4-a is 0" in finding(diagnosis, "quota")
    assert "Use v2-alpha-tpuv5-lite" in finding(diagnosis, "image")
    # The limit is of a region, and of a generation.
    elsewhere = await fleet.doctor.preflight(CheckSetup(type="v5litepod-8", zone="us-central1-a"))
    assert states(elsewhere)["quota"] == "ok"
    wrong = await fleet.doctor.preflight(CheckSetup(type="v4-8", zone=ZONE))
    assert "v4-8 is not offered in us-west4-a" in finding(wrong, "type")


@pytest.fixture
def lab(emulator: Any) -> Iterator[Callable[..., None]]:
    """A network called "lab" without firewall rules; adds one to it. They are gone afterwards."""
    names: list[str] = []
    network = {"name": "lab", "autoCreateSubnetworks": True}
    emulator.request("POST", f"{COMPUTE}/networks", network)

    def allow(name: str, ports: list[str], sources: list[str], *tags: str) -> None:
        rule = {
            "name": name,
            "network": "global/networks/lab",
            "allowed": [{"IPProtocol": "tcp", "ports": ports}],
            "sourceRanges": sources,
            "targetTags": [*tags],
        }
        emulator.request("POST", f"{COMPUTE}/firewalls", rule)
        names.append(name)

    yield allow
    for name in names:
        emulator.request("DELETE", f"{COMPUTE}/firewalls/{name}")
    emulator.request("DELETE", f"{COMPUTE}/networks/lab")


async def test_the_firewall_rules_of_a_network_say_whether_ssh_gets_in(fleet, lab):
    async def firewall(network: str) -> tuple[str, str]:
        diagnosis = await fleet.doctor.preflight(CheckSetup(network=network))
        return states(diagnosis)["firewall"], finding(diagnosis, "firewall")

    state, text = await firewall("default")
    assert (state, text) == ("ok", "The firewall rule default-allow-ssh allows SSH. ")
    lab("web", ["80", "443"], ["0.0.0.0/0"])
    state, text = await firewall("lab")
    assert state == "problem"
    assert "No firewall rule of the network lab allows SSH" in text
    assert "jupyter tpu network setup lab" in text
    lab("tagged", ["20-30"], ["203.0.113.7/32"], "ssh")
    state, text = await firewall("lab")
    assert state == "warning"
    assert "tagged allows SSH only from 203.0.113.7/32 to instances with the tag ssh" in text
    lab("everybody", ["22"], ["0.0.0.0/0"])
    state, text = await firewall("lab")
    assert (state, text) == ("ok", "The firewall rule everybody allows SSH. ")


async def test_an_api_that_is_off_is_the_only_thing_that_is_reported_of_the_project(fleet, faults):
    off = "Cloud TPU API has not been used in project 1 before or it is disabled."
    faults(kind="error", method="ListLocations", code="PERMISSION_DENIED", message=off)
    diagnosis = await fleet.doctor.preflight()
    assert states(diagnosis) == {"api": "problem", "key": "ok"}
    command = "gcloud services enable tpu.googleapis.com --project emulated"
    assert command in finding(diagnosis, "api")


async def test_a_project_with_os_login_and_a_closed_firewall_says_what_to_do(
    emulator, tmp_path, monkeypatch
):
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path / "data"))
    root = "/compute/v1/projects/corp"
    items = [{"key": "enable-oslogin", "value": "TRUE"}]
    emulator.request("POST", f"{root}/setCommonInstanceMetadata", {"items": items})
    emulator.request("DELETE", f"{root}/global/firewalls/default-allow-ssh")
    async with opened(emulator, tmp_path, project="corp") as fleet:
        diagnosis = await fleet.doctor.preflight()
        assert "--metadata enable-oslogin=FALSE" in finding(diagnosis, "os-login")
        assert "only from internal addresses (default-allow-internal)" in finding(
            diagnosis, "firewall"
        )
        assert "let your address in: jupyter tpu network setup default" in finding(
            diagnosis, "firewall"
        )
        for days, state in ((1, "warning"), (90, "ok")):
            await fleet.ssh_key.add(AddSSHKey(days=days))
            assert states(await fleet.doctor.preflight())["os-login"] == state
        assert (await fleet.ssh_key.remove()).in_account is None
        monkeypatch.setenv("JUPYTER_TPU_SSH_USER", "ann_example_com")
        await fleet.networks.set_up(SetUpNetwork(sources=["203.0.113.4"]))
        diagnosis = await fleet.doctor.preflight()
        assert "os-login" not in states(diagnosis)
        assert "allows SSH only from 203.0.113.4/32" in finding(diagnosis, "firewall")


async def test_a_network_is_made_with_what_was_shown_and_then_lacks_nothing(fleet, emulator):
    request = SetUpNetwork(network="lab", zone=ZONE, mosh=True, dry_run=True)
    shown = await fleet.networks.set_up(request)
    assert shown.sources == ["127.0.0.1/32"]
    root = f"/compute/v1/projects/{emulator.state.project}"
    networks = emulator.request("GET", f"{root}/global/networks")["items"]
    assert "lab" not in [network["name"] for network in networks]

    request.dry_run = False
    made = await fleet.networks.set_up(request)
    assert made.changes == shown.changes
    rule = emulator.request("GET", f"{root}/global/firewalls/jupyter-tpu-ssh-lab")
    assert rule["sourceRanges"] == ["127.0.0.1/32"]
    assert rule["allowed"] == [{"IPProtocol": "tcp", "ports": ["22"]}]
    assert rule["network"].endswith("/global/networks/lab")
    subnetwork = emulator.request("GET", f"{root}/regions/us-west4/subnetworks/lab")
    assert subnetwork["privateIpGoogleAccess"] is True
    again = await fleet.networks.set_up(request)
    assert (again.changes, again.blocked) == ([], [])

    # From another address: the rule gets it, and loses the first one if that is asked for.
    request.sources = ["203.0.113.4"]
    await fleet.networks.set_up(request)
    rule = emulator.request("GET", f"{root}/global/firewalls/jupyter-tpu-ssh-lab")
    assert rule["sourceRanges"] == ["127.0.0.1/32", "203.0.113.4/32"]
    request.replace = True
    await fleet.networks.set_up(request)
    rule = emulator.request("GET", f"{root}/global/firewalls/jupyter-tpu-mosh-lab")
    assert rule["sourceRanges"] == ["203.0.113.4/32"]
    assert rule["allowed"] == [{"IPProtocol": "udp", "ports": ["60000-61000"]}]

    diagnosis = await fleet.doctor.preflight(CheckSetup(network="lab"))
    assert "only from 203.0.113.4/32" in finding(diagnosis, "firewall")
    assert "jupyter tpu network setup lab" in finding(diagnosis, "firewall")


async def test_a_network_that_was_made_in_part_says_what_is_missing_and_is_continued(
    fleet, monkeypatch
):
    call = GoogleAPIs.call

    async def refused(
        self: GoogleAPIs, method: str, api: str, path: str, *more: Any, **query: Any
    ) -> Any:
        if method == "POST" and path.endswith("/firewalls"):
            raise TPUError("Google does not answer.", Reason.UNAVAILABLE, "Try again.")
        return await call(self, method, api, path, *more, **query)

    request = SetUpNetwork(network="part", zone=ZONE)
    with monkeypatch.context() as patch:
        patch.setattr(GoogleAPIs, "call", refused)
        with pytest.raises(TPUError) as problem:
            await fleet.networks.set_up(request)
    assert problem.value.message.startswith(
        "It is not known whether this was done: Create the firewall rule jupyter-tpu-ssh-part"
    )
    assert "Done before: Create the network part. Create the subnetwork" in problem.value.message
    assert "continues with what is missing" in problem.value.hint
    continued = await fleet.networks.set_up(request)
    assert [text.split(":")[0] for text in continued.changes] == [
        "Create the firewall rule jupyter-tpu-ssh-part",
        "Create the firewall rule jupyter-tpu-internal-part",
    ]
    with pytest.raises(TPUError, match="The zone us-west9-z does not exist"):
        await fleet.networks.set_up(SetUpNetwork(zone="us-west9-z"))


async def test_prices_are_read_from_google_and_stay_if_that_fails(
    fleet, emulator, tmp_path, monkeypatch
):
    before = await fleet.prices.list()
    assert before.read == ""
    read = await fleet.prices.refresh()
    today = datetime.now(UTC).date().isoformat()
    assert read.read.startswith(today)
    assert read.unknown == ["TpuV99x in us-west4"]
    # They are the emulator's, which has those that are shipped: only the date is another.
    rows = [(row.name, row.region, row.on_demand, row.spot) for row in read.prices]
    assert rows == [(row.name, row.region, row.on_demand, row.spot) for row in before.prices]
    assert {row.date for row in read.prices} == {today}
    for of_type in (await fleet.catalog()).types:
        assert {price.date for price in of_type.prices} <= {today}

    monkeypatch.setitem(billing.SERVICES, "NO-SUCH-SERVICE", 1)
    with raises(Reason.NOT_FOUND):
        await fleet.prices.refresh()
    assert await fleet.prices.list() == read
    async with opened(emulator, tmp_path) as other:
        assert await other.prices.list() == read

"""What a VPC network lacks so that TPUs in it can be reached, without any call."""

from typing import Any

import pytest

from jupyter_tpu.cloud import CloudTPU, Target
from jupyter_tpu.cloud.compute import (
    IAP_RANGE,
    MOSH,
    SSH,
    FirewallRule,
    Network,
    Subnetwork,
    deciding_rule,
)
from jupyter_tpu.cloud.compute.firewall import read_rules
from jupyter_tpu.errors import TPUError
from jupyter_tpu.fleet.core.connections import HostConnections
from jupyter_tpu.fleet.models import SetUpNetwork
from jupyter_tpu.fleet.setup.network_plan import NetworkPlan, plan, read_sources
from jupyter_tpu.fleet.setup.networks import NetworkService
from jupyter_tpu.links import Links

HOME = "203.0.113.4/32"
OFFICE = "198.51.100.0/24"
REGION = "us-west4"


def rule(name: str = "a", **body: Any) -> FirewallRule:
    defaults = {
        "network": "https://x/projects/p/global/networks/lab",
        "sourceRanges": ["0.0.0.0/0"],
    }
    (read,) = read_rules([{"name": name, **defaults, **body}])
    return read


SSH_BODY = [{"IPProtocol": "tcp", "ports": ["22"]}]
INTERNAL = rule(
    "internal", allowed=[{"IPProtocol": "all"}], sourceRanges=["10.0.0.0/8"], priority=65534
)


def own(*sources: str, **body: Any) -> FirewallRule:
    body = {"allowed": SSH_BODY, "sourceRanges": [*sources], **body}
    return rule("jupyter-tpu-ssh-lab", **body)


def planned(
    *rules: FirewallRule, sources: tuple[str, ...] = (HOME,), **request: Any
) -> NetworkPlan:
    """For a network with one subnetwork and *rules*."""
    west = Subnetwork(name="west", region=REGION, range="10.0.0.0/20", google_access=True)
    network = Network(name="lab", subnetworks=(west,), rules=rules)
    asked = SetUpNetwork(network="lab", **request)
    return plan("p", asked, network, REGION, [*sources])


def texts(made: NetworkPlan) -> list[str]:
    return [change.text for change in made.changes]


@pytest.mark.parametrize(
    ("body", "allows"),
    [
        ({"allowed": SSH_BODY}, True),
        ({"allowed": [{"IPProtocol": "tcp", "ports": ["8080", "20-30"]}]}, True),
        ({"allowed": [{"IPProtocol": "6"}], "direction": "INGRESS"}, True),
        ({"allowed": [{"IPProtocol": "all"}]}, True),
        ({"allowed": [{"IPProtocol": "tcp", "ports": ["80", "443"]}]}, False),
        ({"allowed": [{"IPProtocol": "udp"}]}, False),
        ({"denied": SSH_BODY}, False),
    ],
)
def test_a_firewall_rule_lets_ssh_in_or_not(body, allows):
    assert rule(**body).allows(SSH) is allows


def test_rules_that_are_off_or_for_what_goes_out_are_not_read():
    name = {"name": "a", "allowed": SSH_BODY}
    assert read_rules([{**name, "direction": "EGRESS"}, {**name, "disabled": True}]) == []


@pytest.mark.parametrize(
    ("rules", "decides"),
    [
        ([], None),
        ([rule("a", allowed=SSH_BODY)], "a"),
        # A range that covers the address, or does not.
        ([rule("a", allowed=SSH_BODY, sourceRanges=["203.0.113.0/24"])], "a"),
        ([rule("a", allowed=SSH_BODY, sourceRanges=["203.0.113.4/31"])], "a"),
        ([rule("a", allowed=SSH_BODY, sourceRanges=[OFFICE, "::/0"])], None),
        # For no addresses, or only for some instances.
        ([rule("a", allowed=SSH_BODY, sourceRanges=[], sourceTags=["web"])], None),
        ([rule("a", allowed=SSH_BODY, targetTags=["web"])], None),
        ([rule("a", allowed=SSH_BODY, targetServiceAccounts=["a@b"])], None),
        # The lowest number decides; of equal ones, the rule that refuses.
        ([rule("a", allowed=SSH_BODY), rule("no", denied=SSH_BODY)], "no"),
        ([rule("a", allowed=SSH_BODY, priority=9), rule("no", denied=SSH_BODY)], "a"),
        ([rule("a", allowed=SSH_BODY), rule("no", denied=SSH_BODY, sourceRanges=[OFFICE])], "a"),
    ],
)
def test_one_rule_decides_about_an_address(rules, decides):
    decisive = deciding_rule(rules, SSH, HOME)
    assert (decisive.name if decisive else None) == decides


def test_a_rule_must_cover_all_ports_that_are_asked_for():
    some = rule(allowed=[{"IPProtocol": "udp", "ports": ["60000-60010"]}])
    assert deciding_rule([some], MOSH, HOME) is None
    assert str(MOSH) == "UDP ports 60000-61000"


def test_only_the_named_addresses_are_let_in():
    made = planned(INTERNAL, mosh=True)
    ssh, mosh = (change.resource for change in made.changes)
    assert ssh.collection == "global/firewalls"
    assert ssh.body["sourceRanges"] == [HOME]
    assert ssh.body["allowed"] == SSH_BODY
    assert mosh.body["allowed"] == [{"IPProtocol": "udp", "ports": ["60000-61000"]}]
    assert mosh.body["sourceRanges"] == [HOME]
    assert texts(made) == [
        f"Create the firewall rule jupyter-tpu-ssh-lab: {HOME} may use TCP port 22, for SSH.",
        f"Create the firewall rule jupyter-tpu-mosh-lab: {HOME} may use UDP ports 60000-61000, "
        "for mosh.",
    ]
    assert not made.warnings
    assert not made.blocked


def test_what_is_right_already_is_not_changed():
    made = planned(INTERNAL, own(HOME))
    assert not made.changes
    assert f"{HOME} may use TCP port 22 (jupyter-tpu-ssh-lab)." in made.found


def test_another_address_is_added_to_the_rule_or_replaces_the_earlier_ones():
    (added,) = planned(INTERNAL, own(OFFICE)).changes
    assert added.resource.exists
    assert added.resource.body["sourceRanges"] == [OFFICE, HOME]
    (replaced,) = planned(INTERNAL, own(OFFICE), replace=True).changes
    assert replaced.resource.body["sourceRanges"] == [HOME]
    assert f"let {HOME} in and no longer let {OFFICE} in" in replaced.text
    assert not planned(INTERNAL, own(HOME), replace=True).changes


def test_through_iap_nobody_else_is_let_in():
    (change,) = planned(INTERNAL, sources=(), iap=True).changes
    assert change.resource.name == "jupyter-tpu-iap-lab"
    assert change.resource.body["sourceRanges"] == [IAP_RANGE]


def test_hosts_of_a_pod_reach_each_other():
    (change,) = planned(own(HOME)).changes
    assert change.resource.body["sourceRanges"] == ["10.0.0.0/20"]
    protocols = [allowed["IPProtocol"] for allowed in change.resource.body["allowed"]]
    assert protocols == ["tcp", "udp", "icmp"]


def test_a_rule_that_keeps_an_address_out_is_named_and_not_touched():
    denied = {"denied": SSH_BODY, "sourceRanges": ["203.0.113.0/24"]}
    made = planned(INTERNAL, rule("no-ssh", **denied, priority=5))
    assert not made.changes
    assert made.blocked == [
        f"The firewall rule no-ssh keeps {HOME} out (priority 5). Delete it, or add an exception "
        "to it."
    ]
    # Ours comes before this one.
    assert planned(INTERNAL, rule("no-ssh", **denied, priority=65000)).changes


def test_a_rule_of_ours_that_was_narrowed_by_somebody_is_not_widened():
    made = planned(INTERNAL, own(HOME, targetTags=["mine"]))
    assert not made.changes
    assert "jupyter-tpu-ssh-lab was changed by someone else" in made.blocked[0]


def test_a_rule_for_everybody_is_warned_of():
    made = planned(INTERNAL, rule("allow-ssh", allowed=SSH_BODY))
    assert not made.changes
    assert "gcloud compute firewall-rules update allow-ssh --disabled" in made.warnings[0]
    asked = planned(INTERNAL, sources=("0.0.0.0/0",), anywhere=True)
    assert asked.warnings[0].startswith("Anyone on the internet can try to log in.")


def test_a_network_that_does_not_exist_is_made_with_a_subnetwork_and_rules():
    request = SetUpNetwork(network="lab")
    made = plan("p", request, None, REGION, [HOME])
    collections = [change.resource.collection for change in made.changes]
    firewalls = "global/firewalls"
    subnetworks = "regions/us-west4/subnetworks"
    assert collections == ["global/networks", subnetworks, firewalls, firewalls]
    assert made.changes[0].resource.body["autoCreateSubnetworks"] is False
    assert made.changes[1].resource.body["ipCidrRange"] == "10.0.0.0/20"
    assert made.changes[1].resource.body["privateIpGoogleAccess"] is True
    with pytest.raises(TPUError, match="needs a zone"):
        plan("p", request, None, "", [HOME])


def test_a_new_subnetwork_gets_addresses_that_are_free():
    west = Subnetwork(name="lab", region="us-east1", range="10.0.0.0/20", google_access=True)
    network = Network(name="lab", subnetworks=(west,), rules=(own(HOME),))
    made = plan("p", SetUpNetwork(network="lab"), network, REGION, [HOME])
    assert made.changes[0].resource.body["ipCidrRange"] == "10.0.16.0/20"
    with pytest.raises(TPUError, match="Another subnetwork of lab has addresses of"):
        plan("p", SetUpNetwork(network="lab", range="10.0.0.0/22"), network, REGION, [HOME])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("me", "is not an IPv4 address or range"),
        ("2001:db8::1", "is not an IPv4 address or range"),
        ("0.0.0.0/0", "most of the internet"),
        ("128.0.0.0/1", "most of the internet"),
    ],
)
def test_a_source_must_be_an_address_or_a_narrow_range(source, message):
    with pytest.raises(TPUError, match=message):
        read_sources(SetUpNetwork(sources=[source]))


def test_everybody_is_let_in_only_if_that_is_asked_for():
    assert read_sources(SetUpNetwork(sources=["203.0.113.4"])) == [HOME]
    assert read_sources(SetUpNetwork(anywhere=True)) == ["0.0.0.0/0"]
    assert read_sources(SetUpNetwork(anywhere=True, sources=["0.0.0.0/0"])) == ["0.0.0.0/0"]


async def test_nobody_is_let_in_whose_address_is_not_known():
    links = Links(CloudTPU(Target(project="p")))
    service = NetworkService(links.cloud, HostConnections(links))
    with pytest.raises(TPUError, match="is not known") as problem:
        await service.set_up(SetUpNetwork())
    assert "--source ADDRESS" in problem.value.hint
    await links.close()


def test_a_rules_name_is_short_enough_for_a_long_name_of_a_network():
    long = "n" * 63
    made = plan("p", SetUpNetwork(network=long), None, REGION, [HOME])
    names = [change.resource.name for change in made.changes[2:]]
    assert len({*names}) == 2
    assert all(len(name) <= 63 and name.startswith("jupyter-tpu-") for name in names)

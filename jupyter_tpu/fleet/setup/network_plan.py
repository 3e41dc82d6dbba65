"""What has to be changed in a VPC network so that TPUs in it can be reached. No calls here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from ipaddress import IPv4Network

from msgspec import Struct, field

from ...cloud.compute import (
    ANYWHERE,
    IAP_RANGE,
    MOSH,
    SSH,
    FirewallRule,
    Network,
    PortRange,
    Resource,
    Subnetwork,
    deciding_rule,
)
from ...errors import InvalidInput
from ..models import SetUpNetwork

#: The priority of our rules. A rule that refuses with a lower or equal number comes before them.
_RULE_PRIORITY = 1000
_INTERNAL = (PortRange("tcp"), PortRange("udp"), PortRange("icmp"))
#: Wider ranges are most of the internet.
_WIDEST_PREFIX = 8


class NetworkChange(Struct, frozen=True, kw_only=True):
    text: str
    resource: Resource


class NetworkPlan(Struct, kw_only=True):
    """As :class:`~jupyter_tpu.fleet.models.NetworkSetup`, with the changes themselves."""

    subnetwork: str = ""
    found: list[str] = field(default_factory=list)
    changes: list[NetworkChange] = field(default_factory=list)
    blocked: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class _Need(Struct, frozen=True, kw_only=True):
    """Who is to be let in, for which purpose."""

    purpose: str
    ports: tuple[PortRange, ...]
    sources: tuple[str, ...]
    why: str
    replace: bool = False


def read_sources(request: SetUpNetwork) -> list[str]:
    """The ranges that *request* names: "203.0.113.4" becomes "203.0.113.4/32".

    Raises INVALID for what is not an IPv4 range, and for a range that is most of the internet,
    unless the request says so (`anywhere`).
    """
    ranges = [ANYWHERE] if request.anywhere else []
    for text in request.sources:
        try:
            range = IPv4Network(text)
        except ValueError as error:
            raise InvalidInput(
                f"{text!r} is not an IPv4 address or range.",
                "Write an address, such as 203.0.113.4, or a range, such as 203.0.113.0/24.",
            ) from error
        if range.prefixlen < _WIDEST_PREFIX and not request.anywhere:
            raise InvalidInput(
                f"{text} would let most of the internet try to log in.",
                "Name your own address, or, if you really want this, use --anywhere (over REST: "
                "anywhere).",
            )
        ranges.append(str(range))
    return [*dict.fromkeys(ranges)]


def plan(
    project: str, request: SetUpNetwork, network: Network | None, region: str, sources: list[str]
) -> NetworkPlan:
    """What *network* (None: it does not exist) lacks for TPUs in *region* ("": not known)."""
    plan = NetworkPlan()
    path = f"projects/{project}/global/networks/{request.network}"
    if network is None:
        if not region:
            raise InvalidInput(
                f"The network {request.network} does not exist, and a new one needs a zone.",
                "Name a zone, such as --zone us-west4-a.",
            )
        plan.changes.append(
            NetworkChange(
                text=f"Create the network {request.network}.",
                resource=Resource(
                    collection="global/networks",
                    name=request.network,
                    body={
                        "name": request.network,
                        "autoCreateSubnetworks": False,
                        "routingConfig": {"routingMode": "REGIONAL"},
                    },
                ),
            )
        )
        network = Network(name=request.network, subnetworks=(), rules=())
    else:
        plan.found.append(f"The network {network.name} exists.")
    ranges = _plan_subnetwork(plan, request, network, region, path)
    for need in _needs(request, sources, ranges):
        _plan_rule(plan, need, network, path)
    return plan


def _plan_subnetwork(
    plan: NetworkPlan, request: SetUpNetwork, network: Network, region: str, path: str
) -> list[str]:
    """Returns the internal addresses of the hosts."""
    if not region:
        return [subnetwork.range for subnetwork in network.subnetworks]
    here = {
        subnetwork.name: subnetwork
        for subnetwork in network.subnetworks
        if subnetwork.region == region
    }
    name = request.subnetwork or (
        network.name if network.name in here else next(iter(here), network.name)
    )
    plan.subnetwork = name
    if name in here:
        subnetwork = here[name]
        plan.found.append(
            f"The subnetwork {name} in {region} has the addresses {subnetwork.range}."
        )
        if request.iap and not subnetwork.google_access:
            plan.warnings.append(
                f"From the subnetwork {name}, TPUs without external addresses reach neither "
                "Google's APIs nor package indexes. For Google's APIs: gcloud compute networks "
                f"subnets update {name} --region {region} --enable-private-ip-google-access"
            )
        return [subnetwork.range]
    range = _range(request, network.subnetworks)
    body = {"name": name, "network": path, "ipCidrRange": range, "privateIpGoogleAccess": True}
    plan.changes.append(
        NetworkChange(
            text=f"Create the subnetwork {name} in {region} with the addresses {range}.",
            resource=Resource(collection=f"regions/{region}/subnetworks", name=name, body=body),
        )
    )
    return [range]


def _range(request: SetUpNetwork, used: tuple[Subnetwork, ...]) -> str:
    """The range of a new subnetwork: 4096 addresses that Google's own networks don't take."""
    in_use = [IPv4Network(subnetwork.range) for subnetwork in used]
    if request.range is not None:
        try:
            block = IPv4Network(request.range)
        except ValueError as error:
            raise InvalidInput(
                f"{request.range!r} is not a range of IPv4 addresses.",
                "Write one such as 10.0.0.0/20.",
            ) from error
        if any(block.overlaps(block) for block in in_use):
            raise InvalidInput(
                f"Another subnetwork of {request.network} has addresses of {block}.",
                "Choose another range, or leave it out.",
            )
        return str(block)
    for range in IPv4Network("10.0.0.0/9").subnets(new_prefix=20):
        if not any(range.overlaps(block) for block in in_use):
            return str(range)
    raise InvalidInput("No addresses in 10.0.0.0/9 are left.", "Choose a range.")


def _needs(request: SetUpNetwork, sources: list[str], ranges: list[str]) -> Iterator[_Need]:
    outside = (*sources,)
    for needed, purpose, ports, of, why in (
        (bool(outside), "ssh", SSH, outside, "SSH"),
        (request.mosh, "mosh", MOSH, outside, "mosh"),
        (request.iap, "iap", SSH, (IAP_RANGE,), "SSH through Identity-Aware Proxy"),
    ):
        if needed:
            replace = request.replace and purpose != "iap"
            yield _Need(purpose=purpose, ports=(ports,), sources=of, why=why, replace=replace)
    if ranges:
        why = "the hosts of a pod among each other"
        yield _Need(purpose="internal", ports=_INTERNAL, sources=(*ranges,), why=why)


def _plan_rule(plan: NetworkPlan, need: _Need, network: Network, path: str) -> None:
    ports = ", ".join(map(str, need.ports))
    missing = []
    for source in need.sources:
        deciding = [deciding_rule(network.rules, port, source) for port in need.ports]
        refusing = [rule for rule in deciding if rule is not None and rule.denied]
        lets_in = dict.fromkeys(rule.name for rule in deciding if rule is not None)
        if any(rule.priority <= _RULE_PRIORITY for rule in refusing):
            plan.blocked.append(
                f"The firewall rule {refusing[0].name} keeps {source} out (priority "
                f"{refusing[0].priority}). Delete it, or add an exception to it."
            )
        elif refusing or None in deciding:
            missing.append(source)
        else:
            plan.found.append(f"{source} may use {ports} ({', '.join(lets_in)}).")
    if need.purpose == "ssh":
        plan.warnings += _warnings(need, network)
    own = next((rule for rule in network.rules if rule.name == rule_name(need, network)), None)
    if own is not None and (own.tags or own.of_accounts or own.denied):
        plan.blocked.append(
            f"The firewall rule {own.name} was changed by someone else. Delete it, and try again."
        )
    elif own is None and missing:
        _create(plan, need, network, path, missing)
    elif own is not None:
        _update(plan, need, own, missing)


def _create(
    plan: NetworkPlan, need: _Need, network: Network, path: str, missing: list[str]
) -> None:
    name = rule_name(need, network)
    ports = ", ".join(map(str, need.ports))
    plan.changes.append(
        NetworkChange(
            text=f"Create the firewall rule {name}: {', '.join(missing)} may use {ports}, for "
            f"{need.why}.",
            resource=Resource(
                collection="global/firewalls",
                name=name,
                body={
                    "name": name,
                    "description": f"For {need.why}. Made by jupyter-tpu.",
                    "network": path,
                    "direction": "INGRESS",
                    "priority": _RULE_PRIORITY,
                    "allowed": [port.body() for port in need.ports],
                    "sourceRanges": missing,
                },
            ),
        )
    )


def _update(plan: NetworkPlan, need: _Need, own: FirewallRule, missing: list[str]) -> None:
    gone = [source for source in own.sources if source not in need.sources] if need.replace else []
    if not missing and not gone:
        return
    added, removed = ", ".join(missing), ", ".join(gone)
    text = f"Change the firewall rule {own.name}: let {added} in."
    if gone and missing:
        text = (
            f"Change the firewall rule {own.name}: let {added} in and no longer let {removed} in."
        )
    elif gone:
        text = f"Change the firewall rule {own.name}: no longer let {removed} in."
    kept = [source for source in own.sources if source not in gone]
    kept = [*dict.fromkeys([*kept, *missing])]
    if not kept:  # other rules let the wanted ones in
        kept = [*need.sources]
    plan.changes.append(
        NetworkChange(
            text=text,
            resource=Resource(
                collection="global/firewalls",
                name=own.name,
                body={"sourceRanges": kept, "allowed": [port.body() for port in need.ports]},
                exists=True,
            ),
        )
    )


def _warnings(need: _Need, network: Network) -> Iterator[str]:
    if ANYWHERE in need.sources:
        yield (
            "Anyone on the internet can try to log in. Only keys are accepted, but a bug in the "
            "SSH server could let others in. It is safer to allow only your own address."
        )
        return
    for rule in network.rules:
        if rule.is_for(()) and rule.allows(SSH) and ANYWHERE in rule.sources:
            yield (
                f"The firewall rule {rule.name} lets anyone on the internet try to log in. To "
                f"switch it off: gcloud compute firewall-rules update {rule.name} --disabled. Then "
                "run this again."
            )


def rule_name(need: _Need, network: Network) -> str:
    """At most 63 characters."""
    name = f"jupyter-tpu-{need.purpose}-{network.name}"
    if len(name) > 63:
        name = f"{name[:54]}-{hashlib.sha256(network.name.encode()).hexdigest()[:8]}"
    return name

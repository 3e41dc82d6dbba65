"""What a project has at Google: networks in which TPUs can be reached, and what logs are stored."""

from __future__ import annotations

import asyncio
from ipaddress import AddressValueError, IPv4Address, IPv4Network

from ...cloud import Cloud, NodeName, check_ours
from ...cloud.compute import IAP_RANGE, Networks
from ...cloud.google_apis import GoogleAPIs
from ...cloud.log_exclusions import FREE_GIB, PRICE_DATE, USD_PER_GIB, LogExclusion, log_filter
from ...errors import InvalidInput, Reason, TPUError
from ...links import Link, LinkState
from ..core.connections import HostConnections
from ..core.core import Core
from ..models import NetworkSetup, SetLogging, SetUpNetwork, TPULogging
from ..models.core import validated
from .network_plan import NetworkChange, plan, read_sources

#: For all hosts that are asked for this computer's address; seconds.
_ADDRESS_SECONDS = 10.0
#: Reasons that show that nothing was changed. After others, that is not known.
_REFUSALS = frozenset(
    {
        Reason.CONFLICT,
        Reason.EXISTS,
        Reason.INVALID,
        Reason.NO_CREDENTIALS,
        Reason.NOT_FOUND,
        Reason.PERMISSION,
        Reason.QUOTA,
        Reason.RATE_LIMITED,
    }
)
_NAME_SOURCES = "Name the addresses to let in, as `--source ADDRESS` or in the field sources."


class NetworkService:
    """As a :class:`~jupyter_tpu.fleet.api.NetworksAPI`."""

    def __init__(self, cloud: Cloud, connections: HostConnections) -> None:
        self._cloud = cloud
        self._connections = connections

    async def set_up(self, request: SetUpNetwork) -> NetworkSetup:
        request = validated(request)
        sources = read_sources(request)
        if request.mosh and request.iap and not sources:
            raise InvalidInput("mosh does not go through Identity-Aware Proxy.", _NAME_SOURCES)
        project = self._cloud.project
        region = await self._region(request)
        if not sources and not request.iap:
            sources = [await self._own_address(project)]
        networks = Networks(GoogleAPIs(self._cloud.target, project), project)
        network = await networks.find(request.network)
        network_plan = plan(project, request, network, region, sources)
        if not request.dry_run:
            await _make(networks, network_plan.changes)
        return NetworkSetup(
            project=project,
            network=request.network,
            subnetwork=network_plan.subnetwork,
            region=region,
            emulated=self._cloud.emulated,
            sources=sources,
            found=network_plan.found,
            changes=[change.text for change in network_plan.changes],
            blocked=network_plan.blocked,
            warnings=network_plan.warnings,
            dry_run=request.dry_run,
        )

    async def _region(self, request: SetUpNetwork) -> str:
        zone = request.zone or self._cloud.zone or ""
        if request.zone and request.zone not in await self._cloud.locations():
            raise InvalidInput(
                f"The zone {zone} does not exist, or your project may not use it.",
                "Check its spelling.",
            )
        return zone.rpartition("-")[0]

    async def _own_address(self, project: str) -> str:
        if address := await client_address(self._connections, project):
            return address
        if self._cloud.emulated:  # it is reached from this computer only
            return "127.0.0.1/32"
        raise InvalidInput(
            "The internet address of this computer is not known, because it is not connected to a "
            "TPU.",
            f'{_NAME_SOURCES} A web search for "what is my IP address" shows it.',
        )


async def _make(networks: Networks, changes: list[NetworkChange]) -> None:
    for number, change in enumerate(changes):
        try:
            await networks.put(change.resource)
        except TPUError as error:
            refused = error.reason in _REFUSALS
            start = "This was not done:" if refused else "It is not known whether this was done:"
            done = f" Done before: {' '.join(change.text for change in changes[:number])}"
            raise TPUError(
                f"{start} {change.text} {error.message}{done if number else ''}",
                error.reason,
                f"{error.hint} Doing it again continues with what is missing.".strip(),
            ) from error


async def client_address(connections: HostConnections, project: str) -> str | None:
    """ "203.0.113.4/32", from a host of *project* to which there is a connection.

    None if there is none, or it goes through Identity-Aware Proxy, whose address says nothing.
    """
    try:
        async with asyncio.timeout(_ADDRESS_SECONDS):
            for name in connections.names():
                for link in connections.links(name)[:1] if name.project == project else ():
                    if link.state is LinkState.UP and (address := await _seen_by(link)):
                        return address
    except TimeoutError:
        pass  # as if there were no connection: the user is asked for the address
    return None


async def _seen_by(link: Link) -> str | None:
    """sshd's SSH_CONNECTION begins with the client's address."""
    try:
        answer = await link.run(["printenv", "SSH_CONNECTION"])
        address = IPv4Address(answer.stdout.partition(" ")[0])
    except (TPUError, AddressValueError):  # the link was lost; IPv6
        return None
    return None if address in IPv4Network(IAP_RANGE) else f"{address}/32"


class LogService:
    """As a :class:`~jupyter_tpu.fleet.api.LogsAPI`."""

    def __init__(self, core: Core) -> None:
        self._cloud = core.cloud
        self._finder = core.finder

    async def show(self, ref: str) -> TPULogging:
        name, exclusion = await self._find(ref)
        return self._described(name, enabled=not await exclusion.exists())

    async def set(self, ref: str, request: SetLogging) -> TPULogging:
        enabled = validated(request).enabled
        name, exclusion = await self._find(ref)
        await (exclusion.delete() if enabled else exclusion.create())
        return self._described(name, enabled=enabled)

    async def _find(self, ref: str) -> tuple[NodeName, LogExclusion]:
        name = await self._finder.find(ref)
        check_ours(name, "kept out of Cloud Logging")
        return name, LogExclusion(GoogleAPIs(self._cloud.target, name.project), name)

    def _described(self, name: NodeName, *, enabled: bool) -> TPULogging:
        return TPULogging(
            tpu=name.node,
            zone=name.zone,
            project=name.project,
            emulated=self._cloud.emulated,
            enabled=enabled,
            filter=log_filter(name),
            usd_per_gib=USD_PER_GIB,
            free_gib=FREE_GIB,
            price_date=PRICE_DATE,
        )

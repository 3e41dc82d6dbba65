"""Finds a host: its current address, its pinned keys, and our key on it.

Only here `cloud` and `ssh` meet. The hosts of a TPU connect at the same time, so calls about their
node are made once for all of them.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sys
from pathlib import Path

from msgspec import Struct

from ..cloud import Cloud, Endpoint, GuestAttributes, Node, NodeName, NodeState, has_ssh_key
from ..cloud.host_numbers import HostNumbers, is_numbered, numbered
from ..errors import Reason, TPUError
from ..retired import tpu_node_error
from ..ssh import HostAddress, KnownHosts, ensure_key, public_key, user_host
from ..ssh.known_hosts import KINDS
from ..subscribers import Subscribers
from . import logins
from .host_numbers import ask_host_numbers
from .missing_hosts import no_such_host
from .single_flight import SingleFlight

#: Data about a node are shared by all its hosts for this long.
_FRESH_SECONDS = 1.0  # seconds

#: A host's guest agent may take this long to accept a key that was just added to the node.
_KEY_WAIT_NEW = 30.0  # seconds
_KEY_WAIT = 5.0

#: If Google can't be asked, the last known address is tried: the host's key is pinned.
_NO_ANSWER = (
    Reason.UNAVAILABLE,
    Reason.RATE_LIMITED,
    Reason.TIMEOUT,
    Reason.NO_CREDENTIALS,
)

_STOPPED = {NodeState.STOPPED, NodeState.HIDDEN}
#: Until the user has to act; checked again automatically.
_GOING = {NodeState.STOPPING, NodeState.DELETING}
_COMING = {NodeState.CREATING, NodeState.STARTING, NodeState.RESTARTING}

#: What a host may publish about itself: a key's base64, and its instance's name (RFC 1123).
_KEY = re.compile(r"[A-Za-z0-9+/]{1,4096}={0,3}")
_INSTANCE = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")


class HostName(Struct, frozen=True, order=True):
    """One host of a TPU."""

    node: NodeName
    number: int

    def __str__(self) -> str:
        """ "my-tpu", and "my-tpu host 3" for the others."""
        return self.node.node + (f" host {self.number}" if self.number else "")


class HostGone(TPUError):
    """The host was deleted or stopped, and everything that ran there has ended. A host that only
    can't be reached is not gone.
    """


def host_alias(node_id: str, host_number: int, endpoint: Endpoint | None = None) -> str:
    """The name of a host among the known hosts. A host that is a VM of its own, with an id, can be
    replaced by another one in the same TPU.
    """
    if endpoint is not None and endpoint.id:
        return f"tpu.{endpoint.id}"
    return f"tpu.{node_id}-{host_number}"


class ResolvedHost(Struct, frozen=True, kw_only=True):
    """A host, ready to be connected to."""

    address: HostAddress
    node_id: str
    #: Seconds for which the host may still reject our key.
    key_wait: float
    #: Why our key may be rejected, where that is known; it may be accepted all the same.
    key_problem: TPUError | None = None


class Lookup:
    """Finds hosts; raises TPUError."""

    def __init__(self, cloud: Cloud, known_hosts: KnownHosts | None = None) -> None:
        self.cloud = cloud
        self._known_hosts = known_hosts or KnownHosts()
        self._nodes: SingleFlight[NodeName, Node] = SingleFlight(cloud.get_node, _FRESH_SECONDS)
        # By node id, too: what the TPU before of this name has published is not pinned for this.
        self._attributes: SingleFlight[tuple[NodeName, str], list[GuestAttributes]] = SingleFlight(
            lambda key: cloud.guest_attributes(key[0]), _FRESH_SECONDS
        )
        self._keys: SingleFlight[tuple[NodeName, str, str], bool] = SingleFlight(self._add_key)
        self._host_numbers = HostNumbers()
        self._numbered: SingleFlight[NodeName, Node] = SingleFlight(self._number_hosts)
        self._last: dict[NodeName, Node] = {}
        self._attributes_last: dict[str, list[GuestAttributes]] = {}  # by node id
        self._reached: set[str] = set()  # ids of nodes that accepted our key
        #: Called with a TPU whose hosts were just numbered.
        self.numbered = Subscribers[Node]()

    async def find(self, host: HostName) -> ResolvedHost:
        """The address of *host*, and the keys needed to connect to it."""
        node = await self._node(host.node)
        _check_state(node, host)
        if not is_numbered(node):
            node = await self._numbered.get(node.name)
            _check_state(node, host)
            if node.endpoints[host.number].number is None:
                raise TPUError(
                    f"Which VM of {host.node.node} is host {host.number} is not known yet, because "
                    "some of them did not answer.",
                    Reason.UNREACHABLE,
                    "Retrying automatically.",
                )
        return await self._resolve(node, host)

    async def _resolve(self, node: Node, host: HostName) -> ResolvedHost:
        """The host at that place of the list."""
        identity = ensure_key()
        if ssh := node.endpoints[host.number].ssh:
            return await self._find_by_ssh(ssh, node, host, identity)
        login = logins.login(node)
        if login.os_login is None:
            key_problem = await self._authorize(node, login.user, public_key(identity))
        else:  # keys in metadata do not count
            key_problem = login.rejected(str(host))
        alias = host_alias(node.id, host.number, node.endpoints[host.number])
        published = await self._published(node, alias)
        pinned = self._pinned(node, host, alias, published)
        mine = published[host.number] if host.number < len(published) else {}
        endpoint = node.endpoints[host.number]
        proxy: tuple[str, ...] = ()
        if not endpoint.external and not self.cloud.emulated:
            proxy = iap_command(node.name, mine, endpoint.instance)
        return ResolvedHost(
            node_id=node.id,
            address=HostAddress(
                address=endpoint.external or endpoint.internal,
                port=ssh_port(mine),
                user=login.user,
                host_keys=pinned,
                alias=alias,
                name=str(host),
                identity_file=identity,
                proxy_command=proxy,
                loopbacks=_loopbacks(endpoint.internal, self.cloud.emulated),
            ),
            key_wait=_KEY_WAIT if node.id in self._reached else _KEY_WAIT_NEW,
            key_problem=key_problem,
        )

    async def _find_by_ssh(
        self, ssh: str, node: Node, host: HostName, identity: Path
    ) -> ResolvedHost:
        """A host that no cloud manages: the user's OpenSSH says where it is. Attaching has pinned
        its key, and has put ours there.
        """
        alias = host_alias(node.id, host.number)
        pinned = self._known_hosts.keys(alias)
        if not pinned:
            raise TPUError(
                f"The host key of {host} is not pinned here, so its identity can't be checked.",
                Reason.HOST_KEY,
                f"Run `jupyter tpu detach {node.name.node}`, and attach it again.",
            )
        return ResolvedHost(
            node_id=node.id,
            address=(await user_host.resolve(ssh)).host_address(
                host_keys=pinned, alias=alias, name=str(host), identity_file=identity
            ),
            key_wait=0.0,
            key_problem=TPUError(
                f"{host} no longer accepts the key of jupyter-tpu.",
                Reason.PERMISSION,
                f"Run `jupyter tpu detach {node.name.node}`, and attach it again.",
            ),
        )

    def reached(self, host: ResolvedHost) -> None:
        """Call it when *host* was connected to: our key is on it from now on."""
        self._reached.add(host.node_id)

    def internal_addresses(self, name: NodeName) -> dict[HostName, str]:
        """The addresses of the hosts that the node had when it was last read."""
        node = self._last.get(name)
        endpoints = node.endpoints if node else ()
        return {
            HostName(name, host_number): endpoint.internal
            for host_number, endpoint in enumerate(endpoints)
        }

    def note(self, node: Node) -> None:
        """Call it with a node that was just read in another way."""
        self._nodes.note(node.name, node)
        self._last[node.name] = node

    def note_attributes(self, node: Node, published: list[GuestAttributes]) -> None:
        """The same for what its hosts have published."""
        self._attributes.note((node.name, node.id), published)

    def forget(self, name: NodeName) -> None:
        """The next lookup reads the node again: something was changed."""
        self._nodes.forget(name)

    async def close(self) -> None:
        for shared in (self._nodes, self._attributes, self._keys, self._numbered):
            await shared.close()

    # ---- Google's numbers of hosts ---------------------------------------------------------

    async def number_hosts(self, node: Node) -> Node:
        """See `Links.number_hosts`."""
        return node if is_numbered(node) else await self._numbered.get(node.name)

    async def _number_hosts(self, name: NodeName) -> Node:
        """Asks the hosts of a slice of Compute Engine for their numbers, and keeps these. Returns
        the TPU with its hosts in their order, as far as they answered.
        """
        node = await self._node(name)

        async def address(place: int) -> tuple[HostAddress, float]:
            resolved_host = await self._resolve(node, HostName(name, place))
            return resolved_host.address, resolved_host.key_wait

        answers, failed = await ask_host_numbers(len(node.endpoints), address)
        numbers = {node.endpoints[place].id: n for place, n in answers.items() if n is not None}
        if len(set(numbers.values())) < len(numbers) or (not numbers and not failed):
            # Nobody numbers them, or they contradict each other: their names do.
            numbers = {endpoint.id: place for place, endpoint in enumerate(node.endpoints)}
        if not numbers:
            raise next(iter(failed.values()))
        await asyncio.to_thread(self._host_numbers.put, numbers)
        self._nodes.forget(name)
        self._attributes.forget((name, node.id))
        node = await self._node(name)
        for listener in self.numbered:
            listener(node)
        return node

    # ---- the node --------------------------------------------------------------------------

    async def _node(self, name: NodeName) -> Node:
        try:
            node = await self._nodes.get(name)
        except TPUError as error:
            if error.reason is Reason.NOT_FOUND:
                self._last.pop(name, None)
                raise HostGone(
                    f"The TPU {name.node} does not exist in {name.zone}.",
                    Reason.NOT_FOUND,
                    "It may have been deleted. Check the list of TPUs.",
                ) from error
            if error.reason not in _NO_ANSWER or name not in self._last:
                raise
            return self._last[name]
        if not is_numbered(node):
            node = numbered(node, await asyncio.to_thread(self._host_numbers.all))
        self._last[name] = node
        return node

    async def _authorize(self, node: Node, user: str, key: str) -> TPUError | None:
        if has_ssh_key(node, user, key):
            return None
        try:
            await self._keys.get((node.name, user, key))
        except TPUError as error:
            # The key may be there all the same: in the project's metadata, if we may not change the
            # node, or from an earlier time.
            known = node.id in self._reached and error.reason in _NO_ANSWER
            if error.reason is not Reason.PERMISSION and not known:
                raise
            return error
        return None

    async def _add_key(self, key: tuple[NodeName, str, str]) -> bool:
        added = await self.cloud.add_ssh_key(*key)
        self._nodes.forget(key[0])
        return added

    async def _published(self, node: Node, alias: str) -> list[GuestAttributes]:
        """The hosts' guest attributes; read only if they are needed."""
        direct = all(endpoint.external for endpoint in node.endpoints)
        if direct and not self.cloud.emulated and self._known_hosts.keys(alias):
            return []
        try:
            published = await self._attributes.get((node.name, node.id))
        except TPUError as error:
            if error.reason not in _NO_ANSWER or node.id not in self._attributes_last:
                raise
            return self._attributes_last[node.id]
        self._attributes_last[node.id] = published
        return published

    # ---- pinned keys -----------------------------------------------------------------------

    def _pinned(
        self, node: Node, host: HostName, alias: str, published: list[GuestAttributes]
    ) -> tuple[str, ...]:
        """The host's pinned keys; pinned now, for all hosts of the node, if they are not yet."""
        pinned = self._known_hosts.keys(alias)
        if pinned:
            return pinned
        new: dict[str, tuple[str, ...]] = {}
        names: dict[str, str] = {}
        for host_number, attributes in enumerate(published):
            if host_number >= len(node.endpoints):
                break
            endpoint = node.endpoints[host_number]
            other = host_alias(node.id, host_number, endpoint)
            keys = host_keys(attributes)
            if keys and (other == alias or not self._known_hosts.keys(other)):
                new[other] = keys
                place = endpoint.instance or host_number
                names[other] = f"{node.name.project}/{node.name.zone}/{node.name.node}/{place}"
        if alias not in new:
            raise TPUError(
                f"{host} has not published its host key yet, so its identity can't be checked.",
                Reason.UNREACHABLE,
                "It takes about a minute after the start. If it does not appear, set the TPU's "
                "metadata enable-guest-attributes=TRUE.",
            )
        self._known_hosts.pin(new, names)
        return new[alias]


def host_keys(attributes: GuestAttributes) -> tuple[str, ...]:
    """The host keys that one host published, "TYPE BASE64" each, the preferred kind first."""
    keys = []
    for kind in KINDS:
        words = attributes.get(("hostkeys", kind), "").split()
        key = words[1] if words[:1] == [kind] and words[1:] else "".join(words[:1])
        if _KEY.fullmatch(key):
            keys.append(f"{kind} {key}")
    return tuple(keys)


def ssh_port(attributes: GuestAttributes) -> int:
    """The port of a host's sshd: the published one, as emulated hosts do it, or 22."""
    published = attributes.get(("ssh", "port"), "")
    return int(published) if re.fullmatch("[1-9][0-9]{0,4}", published) else 22


def iap_command(node: NodeName, attributes: GuestAttributes, instance: str = "") -> tuple[str, ...]:
    """The command that connects to the SSH port of a host without an external address.

    *instance*: the name of its VM, where Google says it. Hosts of the Cloud TPU API publish it
    (key ``hostname`` in any namespace, as gcloud reads it).

    Empty if the internal address should be tried instead: on a machine at Google, which may be in
    the same network, without gcloud, or if that name is not known.
    """
    gcloud = shutil.which("gcloud")
    names = (value for (_, key), value in attributes.items() if key == "hostname")
    instance = instance or next(names, "")
    # Whoever is root there can publish anything, and an option of gcloud is no name.
    if not gcloud or not _INSTANCE.fullmatch(instance) or _at_google():
        return ()
    return (
        gcloud,
        "compute",
        "start-iap-tunnel",
        instance,
        "22",
        "--listen-on-stdin",
        f"--project={node.project}",
        f"--zone={node.zone}",
        "--verbosity=warning",
    )


def _loopbacks(internal: str, emulated: bool) -> tuple[str, ...]:
    """A host's own addresses. Emulated hosts share this machine's network and its `localhost`, so
    their internal address comes first.
    """
    return tuple(filter(None, (internal, "localhost") if emulated else ("localhost", internal)))


def _at_google() -> bool:
    if sys.platform != "linux":
        return False
    try:
        return Path("/sys/class/dmi/id/product_name").read_text().startswith("Google")
    except OSError:
        return False


def _check_state(node: Node, host: HostName) -> None:
    """Raises if the node has no hosts to connect to now."""
    name = node.name.node
    if node.retired:
        raise tpu_node_error(name)
    if node.state.gone:
        preempted = node.state is NodeState.PREEMPTED
        raise HostGone(
            f"{name} was preempted." if preempted else f"{name} was terminated by Google.",
            Reason.CONFLICT,
            "It can't be used any more. Delete it and create another.",
        )
    if node.state in _STOPPED:
        message = f"The TPU {name} is {node.state.lower()}."
        raise HostGone(message, Reason.CONFLICT, "Start it first.")
    if node.state in _GOING:
        raise TPUError(f"The TPU {name} is {node.state.lower()}.", Reason.UNREACHABLE)
    if node.state in _COMING and host.number >= len(node.endpoints):
        raise TPUError(
            f"{name} is {node.state.lower()} and has no address yet.",
            Reason.UNREACHABLE,
            "Retrying automatically.",
        )
    if not 0 <= host.number < len(node.endpoints):
        raise no_such_host(name, host.number, len(node.endpoints))

"""SSH between the hosts of a pod, without copying a private key.

Each host creates a key of its own, which never leaves it. The other hosts accept its public half,
from that host's internal address only and without agent or X11 forwarding. Their host keys are
pinned from Google's API. So an attacker on one host can reach its pod, but neither the user's other
TPUs nor their laptop, as with a copied private key or a forwarded agent.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ..concurrency import gather_failures
from ..errors import Reason, TPUError
from ..on_host.packing import program
from ..on_host.ssh.pod_keys import FOLDER, KEY
from ..ssh import CommandFailed, CompletedCommand, HostAddress
from ..ssh.host_program import COMMAND, NO_PYTHON, no_python
from ..ssh.login_shell import marked_line
from .lookup import HostName

_SSH = (
    "ssh", "-T", "-o", "BatchMode=yes", "-o", "RemoteCommand=none",
    "-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3",
)  # fmt: skip

#: Seconds for one step on all hosts.
_STEP_SECONDS = 60.0

_PROGRAM = "ssh.pod_keys"
_PUBLIC_KEY = re.compile(r"(ssh-ed25519 [A-Za-z0-9+/=]{1,200})(?: [^\n]*)?")


class PodLink(Protocol):
    """The part of a link that this needs."""

    @property
    def host(self) -> HostName: ...

    @property
    def host_address(self) -> HostAddress: ...

    def acquire(self) -> None: ...

    def release(self) -> None: ...

    async def run(
        self, argv: Sequence[str], *, input: bytes, timeout: float
    ) -> CompletedCommand: ...


class HostGroup(NamedTuple):
    """Hosts that log in to each other. Each group has files of its own in their ~/.ssh."""

    name: str
    aliases: Mapping[HostName, str] | None = None  # None: as `host_alias`

    @property
    def known_hosts(self) -> str:
        return f"jupyter_tpu_{self.name}_known_hosts"

    @property
    def config(self) -> str:
        return f"jupyter_tpu_{self.name}_config"

    @property
    def mark(self) -> str:
        return f"jupyter-tpu-{self.name}"

    def alias(self, host: HostName) -> str:
        return host_alias(host) if self.aliases is None else self.aliases[host]


#: The hosts of one TPU.
POD = HostGroup("pod")


async def authorize_hosts(
    link_to: Callable[[HostName], PodLink],
    hosts: Mapping[HostName, str],
    group: HostGroup = POD,
) -> dict[HostName, TPUError]:
    """Lets *hosts* (with their internal addresses) log in to each other, as ``host-0`` and so on.

    Repeat it after an address has changed, always with all hosts of a group. Returns why hosts
    failed that did; the others can log in to each other.
    """
    links = {host: link_to(host) for host in hosts}
    for link in links.values():
        link.acquire()
    try:
        made, failed = await gather_failures(
            {
                host: _set_up(link, {})  # its key
                for host, link in links.items()
            }
        )
        pod = [
            _PodHost(
                host,
                hosts[host],
                links[host].host_address,
                key,
                group.alias(host),
            )
            for host, key in made.items()
        ]
        _, failed_later = await gather_failures(
            {host: _configure(links[host], pod, group) for host in made}
        )
        return failed | failed_later
    finally:
        for link in links.values():
            link.release()


class _PodHost(NamedTuple):
    name: HostName
    address: str  # inside the pod's network
    host_address: HostAddress
    key: str  # the public one, for the other hosts
    alias: str


def host_alias(host: HostName) -> str:
    """What the other hosts of its pod call a host."""
    return f"host-{host.number}"


def command_on(host: HostName, argv: Sequence[str]) -> list[str]:
    """The command with which another host of its pod runs *argv* on *host*. Before its output comes
    what the login shell writes, and a mark: see `agent.protocol.login_shell`.
    """
    return [*_SSH, host_alias(host), marked_line("exec " + shlex.join(argv))]


async def _configure(link: PodLink, pod: Sequence[_PodHost], group: HostGroup) -> None:
    known = "".join(
        f"{peer.alias},{peer.address},[{peer.address}]:{peer.host_address.port} {key}\n"
        for peer in pod
        for key in peer.host_address.host_keys
    )
    own = next(peer.address for peer in pod if peer.name == link.host)
    limits = "no-agent-forwarding,no-X11-forwarding"
    files = {group.known_hosts: known, group.config: _config(pod, own, group)}
    await _set_up(
        link,
        {
            "files": files,
            "authorized": [
                f'from="{peer.address}",{limits} {peer.key} {group.mark}' for peer in pod
            ],
            "mark": group.mark,
            "include": f"Include {group.config}",
        },
    )


async def _set_up(link: PodLink, request: Mapping[str, object]) -> str:
    """Does what `on_host.ssh.pod_keys` is asked; returns the public half of the host's key."""
    data = program(_PROGRAM) + json.dumps(request).encode()
    try:
        done = await link.run(COMMAND, input=data, timeout=_STEP_SECONDS)
    except CommandFailed as failure:
        if failure.completed.returncode == NO_PYTHON:
            raise no_python() from failure
        raise
    key = _PUBLIC_KEY.fullmatch(done.stdout.strip())
    if key is None:
        raise TPUError(
            f"{host_alias(link.host)} has no usable SSH key in ~/{KEY}.pub.",
            Reason.INTERNAL,
            f"Delete ~/{KEY} and ~/{KEY}.pub there. They are made again.",
        )
    return key[1]


def _config(pod: Sequence[_PodHost], own: str, group: HostGroup) -> str:
    parts = [
        f"Host {peer.alias} {peer.address}\n"
        f"    HostName {peer.address}\n"
        f"    Port {peer.host_address.port}\n"
        f"    User {peer.host_address.user}\n"
        f"    HostKeyAlias {peer.alias}\n"
        for peer in pod
    ]
    names = " ".join(f"{peer.alias} {peer.address}" for peer in pod)
    parts.append(
        f"Host {names}\n"
        f"    BindAddress {own}\n"
        f"    IdentityFile ~/{KEY}\n"
        "    IdentitiesOnly yes\n"
        f"    UserKnownHostsFile ~/{FOLDER}/{group.known_hosts}\n"
        "    StrictHostKeyChecking yes\n"
        "    ForwardAgent no\n"
        "    ConnectTimeout 20\n"
    )
    return "# Made by jupyter-tpu: the hosts of this pod.\n" + "\n".join(parts)

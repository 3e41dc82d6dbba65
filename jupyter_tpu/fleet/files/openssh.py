"""`ssh my-tpu`: entries for the user's OpenSSH, one per host of each TPU, kept up to date."""

from __future__ import annotations

import base64
import hashlib
import os
from collections import Counter
from collections.abc import Iterable

from ...cloud import AttachedMachines, Cloud, Node, is_attached
from ...cloud.outbound import CA_VARIABLES, PROXY_VARIABLES
from ...errors import TPUError
from ...links.logins import login
from ...paths import data_dir
from ...python_command import module_command
from ...ssh import ensure_key
from ...ssh.openssh_config import HostEntry, config_path, write_section

#: The variables that our ProxyCommand needs as they are now, wherever ssh is started from.
_CARRIED = (
    "CLOUDSDK_CONFIG",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "GOOGLE_CLOUD_QUOTA_PROJECT",
    *CA_VARIABLES,
    *PROXY_VARIABLES,
)


def entries(cloud: Cloud, nodes: Iterable[Node]) -> list[HostEntry]:
    """An entry per host: "my-tpu" for host 0, "my-tpu-1" and so on for the others of a pod.

    Each is also called "zone~my-tpu", and only so where two zones have the same name. A TPU that
    is itself called "my-tpu-1" keeps that name. Raises KEY_FILE.
    """
    # The user's own configuration has attached machines.
    nodes = sorted((node for node in nodes if not is_attached(node.name)), key=lambda n: n.name)
    count = Counter(node.name.node for node in nodes)
    bases = {
        node.name: [
            *([node.name.node] if count[node.name.node] == 1 else []),
            f"{node.name.zone}~{node.name.node}",
        ]
        for node in nodes
    }
    used = {name for names in bases.values() for name in names}
    blocks = []
    for node in nodes:
        hosts = max(1, len(node.endpoints))  # one that is being created has none yet
        for host_number in range(hosts):
            names = []
            for base in bases[node.name]:
                names += [base] if host_number == 0 else []
                numbered = f"{base}-{host_number}"
                names += [numbered] if hosts > 1 and numbered not in used else []
            if names:
                blocks.append(entry(cloud, node, host_number, tuple(names)))
    return blocks


def entry(cloud: Cloud, node: Node, host_number: int, names: tuple[str, ...]) -> HostEntry:
    """How OpenSSH reaches one host. Raises KEY_FILE."""
    name = node.name
    data = data_dir().absolute()
    identity, user = ensure_key().absolute(), login(node).user
    if is_attached(name) and (machine := AttachedMachines().find(name.node)) is not None:
        user = machine.hosts[host_number].user
    # Made of the name, not of the node's id: ssh accepts a TPU that was created again without
    # asking. It has other host keys then, which come from Google with the address.
    alias = f"{name.node}-{host_number}.{name.zone}.{name.project.replace(':', '.')}"
    if cloud.emulated:
        alias += "." + cloud.identity.replace(":", "-")
    known_hosts = data / "ssh" / "hosts" / alias
    proxy = module_command("jupyter_tpu.cli.proxy", name.node)
    if cloud.target.emulator:
        proxy.append(f"--emulator={os.path.abspath(cloud.target.emulator)}")
    proxy += [
        f"--project={name.project}",
        f"--zone={name.zone}",
        f"--worker={host_number}",
        f"--data={data}",
        f"--key={identity}",
        f"--user={user}",
        f"--known-hosts={known_hosts}",
    ]
    proxy += [
        f"--set={variable}={os.environ[variable]}"
        for variable in _CARRIED
        if variable in os.environ
        and not cloud.emulated
        # A proxy's password would be in the list of processes.
        and not (variable in PROXY_VARIABLES and "@" in os.environ[variable])
    ]
    return HostEntry(
        names=names,
        host_name=_host_name(node, host_number, alias),
        user=user,
        alias=alias,
        known_hosts=known_hosts,
        identity_file=identity,
        proxy=tuple(proxy),
    )


def _host_name(node: Node, host_number: int, alias: str) -> str:
    """A name that says which host it is: of which project, zone and node, not only its name.

    It is short, because people have it in the paths of sockets, which take about 100 characters.
    """
    digest = hashlib.sha256(f"{alias} {node.id}".encode()).digest()
    unique = base64.b32encode(digest).decode()[:10].lower()  # OpenSSH makes names lower case
    number = f"-{host_number}" if host_number else ""
    return f"{node.name.node[:30].rstrip('-')}{number}.{unique}"


def write(cloud: Cloud, nodes: Iterable[Node]) -> list[HostEntry]:
    """Writes our file with the current entries; returns them."""
    host_entries = entries(cloud, nodes)
    name = cloud.identity.replace(":", "-")
    emulator = cloud.target.emulator
    write_section(name, host_entries, os.path.abspath(emulator) if emulator else None)
    return host_entries


def refresh(cloud: Cloud, nodes: Iterable[Node]) -> None:
    """Updates our file if the user has one; never fails."""
    try:
        if config_path().exists():
            write(cloud, nodes)
    except (TPUError, OSError):
        pass  # reported by the command that writes it, and whenever a link needs the key

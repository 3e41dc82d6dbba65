"""Many hosts on this machine, each with an address, a home folder and so an agent of its own.

They are reached through OpenSSH's sshd, one for each 16 of them, since an sshd listens on that many
addresses. Everything else, the system's user included, is this machine's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from msgspec import structs
from tunnel import free_port, wait_for

from jupyter_tpu.cloud import Maintenance, Node, NodeList, NodeName, NodeState
from jupyter_tpu.cloud.models import Endpoint
from jupyter_tpu.fleet.core.connections import HostConnections
from jupyter_tpu.links import Links
from jupyter_tpu.ssh import KnownHosts, ensure_key, public_key

#: Addresses of one sshd: its MAX_LISTEN_SOCKS.
EACH = 16
NAME = NodeName("bench", "us-central1-a", "pod")

SSHD = """\
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/authorized
PidFile none
StrictModes no
UsePAM no
PermitRootLogin prohibit-password
MaxStartups 1000
"""
#: What `ssh` needs to reach them.
CLIENT = """\
Host 127.0.*
  Port {port}
  User {user}
  IdentityFile {key}
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  StrictHostKeyChecking yes
  BatchMode yes
"""


class Hosts:
    """What clients need to know of them: so many TPUs, each with so many of the hosts."""

    def __init__(self, folder: Path, count: int, tpus: int) -> None:
        self.folder = folder
        self._per_tpu = count // tpus
        self.addresses = [f"127.0.{1 + index // 250}.{1 + index % 250}" for index in range(count)]
        self.port = free_port()
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        os.environ["JUPYTER_TPU_SSH_USER"] = self.user
        self.key = ensure_key(folder / "user")
        make_key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f"]
        subprocess.run([*make_key, folder / "host"], check=True)
        self.host_key = " ".join((folder / "host.pub").read_text().split()[:2])
        (folder / "authorized").write_text(public_key(self.key) + "\n")
        (folder / "known").write_text(
            "".join(f"[{address}]:{self.port} {self.host_key}\n" for address in self.addresses)
        )
        #: For `ssh -F`.
        self.config = folder / "config"
        self.config.write_text(
            CLIENT.format(port=self.port, user=self.user, key=self.key, folder=folder)
        )

    def start(self, addresses: list[str]) -> subprocess.Popen[bytes]:
        """One sshd."""
        lines = [SSHD.format(port=self.port, folder=self.folder)]
        lines += [f"ListenAddress {address}\n" for address in addresses]
        for address in addresses:
            home = self.folder / address
            home.mkdir()
            lines.append(f"Match LocalAddress {address}\n  SetEnv HOME={home}\n")
        config = self.folder / f"sshd_config_{addresses[0]}"
        config.write_text("".join(lines))
        sshd = shutil.which("sshd", path=f"/usr/sbin:{os.environ['PATH']}")
        if sshd is None:
            raise SystemExit("sshd is not installed: nothing to measure")
        with (self.folder / "log").open("ab") as log:
            return subprocess.Popen([sshd, "-D", "-e", "-f", config], stderr=log)

    def node(self) -> Node:
        """The first TPU."""
        return self.nodes()[0]

    def nodes(self) -> list[Node]:
        """All TPUs."""
        keys = {"ssh-keys": f"{self.user}:{public_key(self.key)} {self.user}"}
        return [
            Node(
                name=NAME if first == 0 else structs.replace(NAME, node=f"pod-{first}"),
                id=str(1 + first),
                type="v5p-2048",
                state=NodeState.READY,
                endpoints=tuple(
                    Endpoint(internal=address, external=address)
                    for address in self.addresses[first : first + self._per_tpu]
                ),
                metadata=keys,
            )
            for first in range(0, len(self.addresses), self._per_tpu)
        ]

    def agents(self) -> list[int]:
        """The processes of the agents that run."""
        pids = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes()
                if f"{self.folder}/".encode() in words and words.endswith(b"\0daemon\0"):
                    pids.append(int(entry.name))
        return pids


@contextlib.contextmanager
def hosts(folder: Path, count: int, tpus: int = 1) -> Iterator[Hosts]:
    """*count* of them, until the end; agents that still run are ended then."""
    machines = Hosts(folder, count, tpus)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    groups = [machines.addresses[begin : begin + EACH] for begin in range(0, count, EACH)]
    servers = [machines.start(group) for group in groups]
    try:
        for address in machines.addresses:
            wait_for(machines.port, address=address)
        yield machines
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait()
        for agent in machines.agents():
            with contextlib.suppress(ProcessLookupError):
                os.kill(agent, signal.SIGKILL)


class CloudOfHosts:
    """Answers what links, and a fleet at rest, ask of `Cloud`: where hosts are, and their keys."""

    emulated = True
    target = SimpleNamespace(emulator="")
    project, identity = NAME.project, "emulator:hosts"

    def __init__(self, machines: Hosts) -> None:
        self._nodes = {node.name: node for node in machines.nodes()}
        self._machines = machines

    async def list_nodes(self) -> NodeList:
        return NodeList(nodes=tuple(self._nodes.values()), unreachable=())

    async def get_node(self, name: NodeName) -> Node:
        return self._nodes[name]

    async def maintenance(self) -> dict[str, Maintenance]:
        return {}

    async def guest_attributes(self, name: NodeName) -> list[dict[tuple[str, str], str]]:
        attributes = {
            ("hostkeys", "ssh-ed25519"): self._machines.host_key,
            ("ssh", "port"): str(self._machines.port),
        }
        return [attributes for _ in self._nodes[name].endpoints]


@contextlib.asynccontextmanager
async def connections(machines: Hosts) -> Any:
    """Links to all hosts, which are being brought up."""
    cloud: Any = CloudOfHosts(machines)
    os.environ["JUPYTER_TPU_SSH_KEY"] = str(machines.key)
    links = Links(cloud, known_hosts=KnownHosts(machines.folder / "pinned"))
    opened = HostConnections(links)
    try:
        opened.acquire(NAME, len(machines.addresses))
        yield opened
    finally:
        opened.close()
        await links.close()
        await asyncio.sleep(0)

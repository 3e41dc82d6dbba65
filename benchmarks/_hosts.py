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

from tunnel import free_port, wait_for

from jupyter_tpu.cloud import Node, NodeName, NodeState
from jupyter_tpu.cloud.models import Endpoint
from jupyter_tpu.fleet.hosts.connections import HostConnections
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
    """What clients need to know of them."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.addresses = [f"127.0.{1 + each // 250}.{1 + each % 250}" for each in range(count)]
        self.port = free_port()
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        os.environ["JUPYTER_TPU_SSH_USER"] = self.user
        self.key = ensure_key(folder / "user")
        make_key = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "host"]
        subprocess.run(make_key, check=True)
        self.host_key = " ".join((folder / "host.pub").read_text().split()[:2])
        (folder / "authorized").write_text(public_key(self.key) + "\n")
        (folder / "known").write_text(
            "".join(f"[{each}]:{self.port} {self.host_key}\n" for each in self.addresses)
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
        """All of them as one TPU."""
        return Node(
            name=NAME,
            id="1",
            type="v5p-2048",
            state=NodeState.READY,
            endpoints=tuple(Endpoint(internal=each, external=each) for each in self.addresses),
            metadata={"ssh-keys": f"{self.user}:{public_key(self.key)} {self.user}"},
        )

    def agents(self) -> list[int]:
        """The processes of the agents that run."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes()
                if f"{self.folder}/".encode() in words and b"/.jupyter-tpu/agent/" in words:
                    found.append(int(entry.name))
        return found


@contextlib.contextmanager
def hosts(folder: Path, count: int) -> Iterator[Hosts]:
    """*count* of them, until the end; agents that still run are ended then."""
    made = Hosts(folder, count)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)
    groups = [made.addresses[begin : begin + EACH] for begin in range(0, count, EACH)]
    servers = [made.start(group) for group in groups]
    try:
        for address in made.addresses:
            wait_for(made.port, address=address)
        yield made
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait()
        for agent in made.agents():
            with contextlib.suppress(ProcessLookupError):
                os.kill(agent, signal.SIGKILL)


class CloudOfHosts:
    """Answers what links ask of `Cloud`, which is where the hosts are, and their keys."""

    emulated = True
    target = SimpleNamespace(emulator="")

    def __init__(self, made: Hosts) -> None:
        self._made = made

    async def get_node(self, name: NodeName) -> Node:
        return self._made.node()

    async def guest_attributes(self, name: NodeName) -> list[dict[tuple[str, str], str]]:
        each = {
            ("hostkeys", "ssh-ed25519"): self._made.host_key,
            ("ssh", "port"): str(self._made.port),
        }
        return [each for _ in self._made.addresses]


@contextlib.asynccontextmanager
async def connections(made: Hosts) -> Any:
    """Links to all hosts, which are being brought up."""
    cloud: Any = CloudOfHosts(made)
    os.environ["JUPYTER_TPU_SSH_KEY"] = str(made.key)
    links = Links(cloud, known_hosts=KnownHosts(made.folder / "pinned"))
    opened = HostConnections(links, lambda name: None)
    try:
        opened.acquire(NAME, len(made.addresses))
        yield opened
    finally:
        opened.close()
        await links.close()
        await asyncio.sleep(0)

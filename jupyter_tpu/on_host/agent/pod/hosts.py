"""All hosts of a pod kernel, as the conductor sees them: their connections, and what it has asked
them.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from typing import Any, Dict, Iterable, List, NamedTuple, Optional

from ..protocol import messages
from ..protocol.events import CONTROL, SHELL
from .connection import ConnectionLimits, HostConnection, HostListener
from .pod_start import Ask
from .slices import for_host

#: The type of what hosts are asked; see `pod_member`.
KIND = "jupyter_tpu_pod"
#: The ports at which JAX's coordinator is expected; the first free one is used.
PORTS = range(8476, 8483)


class Asked(NamedTuple):
    """What a message to a host was for."""

    host: int
    what: str  # "cell", "start", "check", "stack"
    number: int
    part: str = ""


class PodHosts:
    """Starts the process next to the kernel on each host.

    Parameters
    ----------
    count: their number.
    spec: for `member.run_member`, without ``host`` and ``key``. With ``warm``, names of modules to
        import, the kernels wait until `assign`.
    sources: the agent's folder.
    listener: hears of the hosts, until `listen`.
    """

    def __init__(
        self, count: int, spec: Dict[str, Any], sources: str, listener: HostListener
    ) -> None:
        self._key = os.urandom(24).hex()
        #: Signs what the hosts' kernels get.
        self.signer = messages.MessageSigner(self._key, "conductor")
        limits = ConnectionLimits()
        self._hosts = [
            HostConnection(
                host, for_host({**spec, "key": self._key}, host), sources, listener, limits
            )
            for host in range(count)
        ]
        self._asked: Dict[str, Asked] = {}  # by the message's id

    def __len__(self) -> int:
        return len(self._hosts)

    def listen(self, listener: HostListener) -> None:
        """From now on *listener* hears of the hosts."""
        for host in self._hosts:
            host.listener = listener

    def assign(self, spec: Dict[str, Any]) -> None:
        """Makes warm kernels those of *spec*, as the class takes it."""
        for number, host in enumerate(self._hosts):
            host.assign(for_host({**spec, "key": self._key}, number))

    def send(self, host: int, channel: int, parts: List[bytes]) -> None:
        """Sends a host's kernel a message that is signed already."""
        self._hosts[host].send(channel, parts)

    def request(
        self, host: int, channel: int, kind: str, content: Dict[str, Any], asked: Asked
    ) -> str:
        """Sends a message of the conductor; returns its id."""
        message = self.signer.message(kind, content)
        id = str(messages.decode_part(message, messages.HEADER)["msg_id"])
        self._asked[id] = asked
        self._hosts[host].send(channel, message)
        return id

    def ask(self, asked: Asked, do: str, arguments: Dict[str, Any], channel: int = SHELL) -> None:
        """Asks what `pod_member` answers."""
        content = {"do": do, "arguments": arguments}
        self.request(asked.host, channel, KIND, content, asked)

    def ask_to_start(self, asks: Iterable[Ask]) -> None:
        """Asks what `pod_start` wants. Reports are made while a host joins."""
        for ask in asks:
            channel = CONTROL if ask.do == "report" else SHELL
            self.ask(Asked(ask.host, "start", 0, ask.do), ask.do, ask.arguments, channel)

    def asked_for(self, host: int, id: str) -> Optional[Asked]:
        """What the message *id* to this host was for; None if it is not the conductor's."""
        asked = self._asked.get(id)
        return asked if asked is not None and asked.host == host else None

    def forget(self, id: str) -> None:
        """A host has answered a message completely."""
        self._asked.pop(id, None)

    def interrupt(self, hosts: Iterable[int]) -> None:
        """Interrupts these hosts' kernels, and what they have started."""
        for host in hosts:
            self._hosts[host].signal(signal.SIGINT)

    def ask_places(self, host: int) -> None:
        """Asks what a host's chips run; the answer is a note."""
        self._hosts[host].ask_places()

    def end(self, host: int) -> None:
        """Shuts a host's kernel down."""
        self._hosts[host].end()

    async def close(self, seconds: float) -> None:
        """Shuts all kernels down; after so many seconds they are cut off."""
        for host in self._hosts:
            host.end()
        await asyncio.gather(*(host.wait_closed(seconds) for host in self._hosts))


def free_port(address: str) -> int:
    """A port at which host 0's coordinator can listen."""
    for port in (*PORTS, 0):
        with socket.socket() as listening, contextlib.suppress(OSError):
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((address, port))
            return int(listening.getsockname()[1])
    return PORTS[0]

"""``jupyter tpu proxy``: the ProxyCommand of our OpenSSH entries.

Asks where a host is now, writes down which keys it may show, connects, and gives the connection to
a small program that carries bytes. What goes wrong is one line, which ssh shows.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ..errors import Reason, TPUError

if TYPE_CHECKING:
    from ..ssh import HostAddress
    from ..ssh.proxies import ProxyRoute

#: Seconds: for the question where the host is and our key to get there, and for the connection.
ASK_LIMIT = 60.0
CONNECT_LIMIT = 20.0


def proxy(chosen: argparse.Namespace) -> None:
    from ..ssh import openssh_config
    from ..ssh.keys import KEY_VARIABLE, USER_VARIABLE

    # What the entry was written with counts, wherever ssh is started from.
    given = {"JUPYTER_TPU_DATA_DIR": chosen.data, KEY_VARIABLE: chosen.key}
    given[USER_VARIABLE] = chosen.user
    given |= dict(pair.split("=", 1) for pair in chosen.set)
    os.environ.update({name: value for name, value in given.items() if value})

    address = _quickly(chosen) or _thoroughly(chosen)
    route = _route(address)
    if chosen.known_hosts:
        openssh_config.write_host_keys(Path(chosen.known_hosts), address.host_keys)
    if route.jumps:
        *before, last = route.jumps
        command = ["ssh", "-W", _place(address), *(["-J", ",".join(before)] if before else [])]
        _become([*command, *_destination(last)])
    if route.command:
        _become(list(route.command))
    _carry(address)


def _quickly(chosen: argparse.Namespace) -> HostAddress | None:
    """The address of a host that was reached before; None where there is more to be done."""
    from ..cloud import NodeName, Target
    from ..links import HostName
    from ..links.fast_lookup import fast_lookup

    if not (chosen.project and chosen.zone):
        return None
    target = Target(emulator=chosen.emulator, project=chosen.project, zone=chosen.zone)
    node = NodeName(chosen.project, chosen.zone, chosen.name)
    return fast_lookup(target, HostName(node, chosen.worker))


def _thoroughly(chosen: argparse.Namespace) -> HostAddress:
    """The same, with our key put on the node, its hosts' keys pinned, and what is wrong said."""
    try:
        return asyncio.run(asyncio.wait_for(_find(chosen), ASK_LIMIT))
    except TimeoutError:
        raise TPUError(
            f"It took too long to learn where {chosen.name} is.", Reason.TIMEOUT, "Try again."
        ) from None


def _route(address: HostAddress) -> ProxyRoute:
    """The user's own route out of their network, if they need one."""
    from ..ssh.openssh_config import config_path, without_include
    from ..ssh.proxies import ProxyRoute, resolve_route, user_config

    config = user_config()
    try:
        said = without_include(config.read_bytes(), config_path()).lower()
    except OSError:
        said = b""
    if not any(word in said for word in (b"proxy", b"include", b"exec")):
        return ProxyRoute(command=address.proxy_command)  # without loading what reads it properly
    return asyncio.run(resolve_route(address))


async def _find(chosen: argparse.Namespace) -> HostAddress:
    from ..cloud import Cloud, NodeName, Target
    from ..links import HostName
    from ..links.lookup import Lookup

    target = Target.from_environment(
        emulator=chosen.emulator, project=chosen.project, zone=chosen.zone
    )
    cloud = Cloud(target)
    lookup = Lookup(cloud)
    try:
        zone = chosen.zone or cloud.zone
        if not zone:
            raise TPUError(
                f"The zone of {chosen.name} is not known.", Reason.INVALID, "Give it with --zone."
            )
        node = NodeName(cloud.project, zone, chosen.name)
        return (await lookup.find(HostName(node, chosen.worker))).address
    finally:
        await lookup.close()
        await cloud.close()


def _carry(address: HostAddress) -> NoReturn:
    """Connects, and becomes the program that carries bytes."""
    from ..ssh import stdio

    try:
        connection = socket.create_connection((address.address, address.port), CONNECT_LIMIT)
    except OSError as error:
        raise TPUError(
            f"{address.label} at {address.address} port {address.port} can't be reached: "
            f"{(error.strerror or str(error)).lower()}.",
            Reason.UNREACHABLE,
            "Check the network and the TPU's firewall rules (SSH must be let in).",
        ) from error
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if sys.platform == "win32":
        stdio.main(connection.detach())
    connection.set_inheritable(True)
    _become([sys.executable, "-I", "-S", stdio.__file__, str(connection.detach())])


def _become(command: list[str]) -> NoReturn:
    if sys.platform == "win32":
        import subprocess

        raise SystemExit(subprocess.run(command).returncode)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise TPUError(
            f"{command[0]} can't be run: {error.strerror}.", Reason.UNREACHABLE
        ) from error


def _place(address: HostAddress) -> str:
    return f"[{address.address}]:{address.port}"


def _destination(jump: str) -> list[str]:
    """ "[user@]host[:port]" as ssh's arguments."""
    user, at, place = jump.rpartition("@")
    name, colon, port = place.rpartition(":")
    if not colon:
        return [jump]
    return ["-p", port, f"{user}{at}{name}"]

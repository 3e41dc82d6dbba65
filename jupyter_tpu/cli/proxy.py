"""``python -m jupyter_tpu.cli.proxy``: the ProxyCommand of our OpenSSH entries.

Looks up a host's current address, writes down the host keys that it may show, connects, and hands
the connection to a small program that carries bytes. A failure is one line, which ssh shows. It is
no command of ``jupyter tpu``: people do not type it, and each `ssh` waits for its imports.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ..errors import InvalidInput, Reason, TPUError

if TYPE_CHECKING:
    from ..ssh import HostAddress
    from ..ssh.proxies import ProxyRoute

#: Seconds: to look the host up and put our key there, and to connect.
LOOKUP_LIMIT = 60.0
CONNECT_LIMIT = 20.0


def main() -> int:
    """Becomes the program that carries bytes; returns the exit code if that fails."""
    parser = argparse.ArgumentParser(prog="jupyter_tpu.cli.proxy", allow_abbrev=False)
    parser.add_argument("name")
    parser.add_argument("--worker", type=int, default=0)
    parser.add_argument("--set", action="append", default=[])
    for option in ("emulator", "project", "zone", "data", "key", "user", "known-hosts"):
        parser.add_argument(f"--{option}")
    try:
        proxy(parser.parse_args())
    except TPUError as error:
        print(f"jupyter tpu: {' '.join(str(error).split())}", file=sys.stderr)
    except KeyboardInterrupt:
        pass
    return 1


def proxy(args: argparse.Namespace) -> None:
    from ..agent_token import require_person
    from ..ssh import openssh_config
    from ..ssh.keys import KEY_VARIABLE, USER_VARIABLE

    require_person(f"`ssh {args.name}`")
    # The settings the entry was written with, wherever ssh is started.
    given = {"JUPYTER_TPU_DATA_DIR": args.data, KEY_VARIABLE: args.key}
    given[USER_VARIABLE] = args.user
    given |= dict(pair.split("=", 1) for pair in args.set)
    os.environ.update({name: value for name, value in given.items() if value})

    address = _quickly(args) or _thoroughly(args)
    route = _route(address)
    if args.known_hosts:
        openssh_config.write_host_keys(Path(args.known_hosts), address.host_keys)
    if route.jumps:
        *before, last = route.jumps
        command = ["ssh", "-W", _host_port(address), *(["-J", ",".join(before)] if before else [])]
        _become([*command, *_destination(last)])
    if route.command:
        _become(list(route.command))
    _carry(address)


def _quickly(args: argparse.Namespace) -> HostAddress | None:
    """The address of a host that was reached before; None where there is more to be done."""
    from ..cloud import NodeName, Target
    from ..links import HostName
    from ..links.fast_lookup import fast_lookup

    if not (args.project and args.zone):
        return None
    target = Target(emulator=args.emulator, project=args.project, zone=args.zone)
    node = NodeName(args.project, args.zone, args.name)
    return fast_lookup(target, HostName(node, args.worker))


def _thoroughly(args: argparse.Namespace) -> HostAddress:
    """The same; also puts our key on the node, pins its hosts' keys and says what is wrong."""
    try:
        return asyncio.run(_find(args))
    except TimeoutError:
        raise TPUError(
            f"Looking up the address of {args.name} timed out.", Reason.TIMEOUT, "Try again."
        ) from None


def _route(address: HostAddress) -> ProxyRoute:
    """The proxy that the user's own SSH configuration names, if any."""
    from ..ssh.openssh_config import config_path, without_include
    from ..ssh.proxies import ProxyRoute, resolve_route, user_config

    config = user_config()
    try:
        text = without_include(config.read_bytes(), config_path()).lower()
    except OSError:
        text = b""
    if not any(word in text for word in (b"proxy", b"include", b"exec")):
        return ProxyRoute(command=address.proxy_command)  # without loading what reads it properly
    return asyncio.run(resolve_route(address))


async def _find(args: argparse.Namespace) -> HostAddress:
    from ..cloud import CloudWithAttached, GoogleCloud, NodeName, Target
    from ..links import HostName
    from ..links.lookup import Lookup

    target = Target.from_environment(emulator=args.emulator, project=args.project, zone=args.zone)
    cloud = CloudWithAttached(GoogleCloud(target))
    lookup = Lookup(cloud)
    try:
        zone = args.zone or cloud.zone
        if not zone:
            raise InvalidInput(f"The zone of {args.name} is unknown.", "Give it with --zone.")
        node = NodeName(args.project or cloud.project, zone, args.name)
        async with asyncio.timeout(LOOKUP_LIMIT):
            return (await lookup.find(HostName(node, args.worker))).address
    finally:
        await lookup.close()
        await cloud.close()


def _carry(address: HostAddress) -> NoReturn:
    """Connects, and becomes the program that carries bytes."""
    from ..on_host.ssh import stdio

    try:
        connection = socket.create_connection((address.address, address.port), CONNECT_LIMIT)
    except OSError as error:
        raise TPUError(
            f"Can't reach {address.label} at {address.address} port {address.port}: "
            f"{(error.strerror or str(error)).lower()}.",
            Reason.UNREACHABLE,
            "Check the network, and that the TPU's firewall rules allow SSH.",
        ) from error
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.set_inheritable(True)
    _become([sys.executable, "-I", "-S", stdio.__file__, str(connection.detach())])


def _become(command: list[str]) -> NoReturn:
    try:
        os.execvp(command[0], command)
    except OSError as error:
        raise TPUError(f"Can't run {command[0]}: {error.strerror}.", Reason.UNREACHABLE) from error


def _host_port(address: HostAddress) -> str:
    return f"[{address.address}]:{address.port}"


def _destination(jump: str) -> list[str]:
    """ "[user@]host[:port]" as ssh's arguments."""
    user, at, place = jump.rpartition("@")
    name, colon, port = place.rpartition(":")
    if not colon:
        return [jump]
    return ["-p", port, f"{user}{at}{name}"]


if __name__ == "__main__":
    sys.exit(main())

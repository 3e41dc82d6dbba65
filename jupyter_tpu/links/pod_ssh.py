"""SSH between the hosts of a pod, without copying a private key.

Each host creates a key of its own, which never leaves it. The other hosts accept its public half,
from that host's internal address only and without agent or X11 forwarding. Their host keys are
pinned from Google's API. So an attacker on one host can reach its pod, but neither the user's other
TPUs nor their laptop, as with a copied private key or a forwarded agent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from ..ssh import HostAddress
from .link import Link
from .lookup import HostName
from .registry import Links

T = TypeVar("T")

KEY = ".ssh/jupyter_tpu_pod"
_KNOWN_HOSTS = ".ssh/jupyter_tpu_pod_known_hosts"
_CONFIG = ".ssh/jupyter_tpu_pod_config"
_MARK = "jupyter-tpu-pod"

#: Seconds for one step on all hosts.
_LIMIT = 60.0

_MAKE_KEY = f"""\
umask 077; mkdir -p .ssh || exit 1
[ -e {KEY} ] || ssh-keygen -q -t ed25519 -N '' -C {_MARK} -f {KEY} </dev/null || exit 1
cat {KEY}.pub
"""


async def authorize_hosts(links: Links, hosts: Sequence[tuple[HostName, str]]) -> None:
    """Lets *hosts* (with their internal addresses) log in to each other, as ``host-0`` and so on.

    Repeat it after an address has changed. Raises what links and commands do.
    """
    links_up = [links.get(host) for host, _ in hosts]
    for link in links_up:
        link.acquire()
    try:
        results = await _all(
            [link.run(["sh", "-c", _MAKE_KEY], timeout=_LIMIT) for link in links_up]
        )
        host_addresses = [link.host_address for link in links_up]
        addresses = [internal for _, internal in hosts]
        keys = [each.stdout.strip() for each in results]
        work = [
            _configure(link, number, addresses, host_addresses, keys)
            for number, link in enumerate(links_up)
        ]
        await _all(work)
    finally:
        for link in links_up:
            link.release()


async def _configure(
    link: Link,
    number: int,
    addresses: Sequence[str],
    host_addresses: Sequence[HostAddress],
    keys: Sequence[str],
) -> None:
    known = "".join(
        f"host-{other},{address},[{address}]:{host_address.port} {key}\n"
        for other, (address, host_address) in enumerate(zip(addresses, host_addresses, strict=True))
        for key in host_address.host_keys
    )
    await link.put(known.encode(), f"~/{_KNOWN_HOSTS}")
    await link.put(_config(addresses, host_addresses, addresses[number]).encode(), f"~/{_CONFIG}")
    lines = [
        f'from="{address}",no-agent-forwarding,no-X11-forwarding {_bare(key)} {_MARK}'
        for address, key in zip(addresses, keys, strict=True)
    ]
    there = await _text(link, ".ssh/authorized_keys")
    kept = [line for line in there.splitlines() if not line.endswith(f" {_MARK}")]
    text = "\n".join([*kept, *lines]) + "\n"
    if text != there:
        await link.put(text.encode(), "~/.ssh/authorized_keys")
    config = await _text(link, ".ssh/config")
    line = f"Include {_CONFIG.rpartition('/')[2]}\n"
    if line not in config:
        await link.put((line + config).encode(), "~/.ssh/config")


async def _all(work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Waits for all, then raises the first error, if any."""
    done = await asyncio.gather(*work, return_exceptions=True)
    for each in done:
        if isinstance(each, BaseException):
            raise each
    return [each for each in done if not isinstance(each, BaseException)]


def _bare(key: str) -> str:
    """A public key without its comment."""
    return " ".join(key.split()[:2])


async def _text(link: Link, path: str) -> str:
    done = await link.run(["sh", "-c", '[ ! -e "$1" ] || cat "$1"', "cat", path], timeout=_LIMIT)
    return done.stdout


def _config(addresses: Sequence[str], host_addresses: Sequence[HostAddress], own: str) -> str:
    parts = [
        f"Host host-{number} {address}\n"
        f"    HostName {address}\n"
        f"    Port {host_address.port}\n"
        f"    User {host_address.user}\n"
        f"    HostKeyAlias host-{number}\n"
        for number, (address, host_address) in enumerate(
            zip(addresses, host_addresses, strict=True)
        )
    ]
    names = " ".join(f"host-{number} {address}" for number, address in enumerate(addresses))
    parts.append(
        f"Host {names}\n"
        f"    BindAddress {own}\n"
        f"    IdentityFile ~/{KEY}\n"
        "    IdentitiesOnly yes\n"
        f"    UserKnownHostsFile ~/{_KNOWN_HOSTS}\n"
        "    StrictHostKeyChecking yes\n"
        "    ForwardAgent no\n"
        "    ConnectTimeout 20\n"
    )
    return "# Made by jupyter-tpu: the hosts of this pod.\n" + "\n".join(parts)

"""Machines before they are attached: which host key each shows, and what it is."""

from __future__ import annotations

import asyncio
import functools
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from ... import environment, ssh
from ...cloud import AttachedHost, AttachedMachine, AttachedMachines, attached_name
from ...concurrency import gather_failures
from ...errors import InvalidInput, Reason, TPUError, error_for
from ...links import HostName, host_alias, read_host_number
from ...ssh import user_host
from ...wording import count, other_hosts
from ..models import AttachMachine
from ..models.core import timestamp

#: So many machines are connected to at a time.
_AT_ONCE = 16
#: The TPU chips of each host of a TPU with several. Source: pytorch/xla#7714.
_CHIPS_OF_SLICE = 4

T = TypeVar("T")
#: How a machine is reached, and which key it shows.
ResolvedMachine = tuple[user_host.UserHost, user_host.ShownKey]


async def inspect_machines(request: AttachMachine) -> list[ResolvedMachine]:
    """How each machine is reached, and which host key it shows. It changes nothing.

    Raises what fails, INVALID for a machine that is there twice, and HOST_KEY for an expected key
    that no machine shows.
    """
    inspected = await _of_each(request.ssh, lambda worker: _inspect(request.ssh[worker]))
    _require_expected(request, inspected)
    return inspected


async def attach(name: str, request: AttachMachine, store: AttachedMachines) -> AttachedMachine:
    """Connects, asks what the machines are, and adds them to *store* as one TPU. It leaves our key
    there, and their keys here.

    Returns what has this name then: another process may have been quicker. Raises what fails; it
    names each machine of several that fails, and nothing is attached then.
    """
    inspected = await inspect_machines(request)
    _require_known(request, inspected)
    identity = await asyncio.to_thread(ssh.ensure_key)
    id = f"attached-{secrets.token_hex(8)}"
    addresses = [
        host.host_address(
            host_keys=(shown.key,),
            alias=host_alias(id, worker),
            name=host.alias,
            identity_file=identity,
        )
        for worker, (host, shown) in enumerate(inspected)
    ]

    node = attached_name(name)
    hosts = await _of_each(
        request.ssh,
        lambda worker: _examine(HostName(node, worker), inspected[worker][0], addresses[worker]),
    )
    require_one_slice(hosts)
    order = in_googles_order(hosts)
    hosts = [hosts[place] for place in order]
    aliases = [host_alias(id, worker) for worker in range(len(hosts))]
    pin = functools.partial(
        ssh.KnownHosts().pin,
        {aliases[worker]: addresses[place].host_keys for worker, place in enumerate(order)},
        {alias: f"{node.path}/{worker}" for worker, alias in enumerate(aliases)},
    )
    machine = AttachedMachine(name=name, id=id, hosts=tuple(hosts), created=timestamp())
    return await asyncio.to_thread(store.add, machine, pin)


async def _examine(
    where: HostName, host: user_host.UserHost, address: ssh.HostAddress
) -> AttachedHost:
    connection = await _connect(host, address)
    try:
        machine = await environment.describe_machine(_ConnectedHost(where, connection))
        number = await read_host_number(connection) if machine.chips else None
    finally:
        await connection.close()
    return AttachedHost(
        number=number,
        alias=host.alias,
        user=host.user,
        address=host.address,
        internal=machine.address or host.address,
        chips=tuple(machine.chips),
    )


async def _connect(host: user_host.UserHost, address: ssh.HostAddress) -> ssh.Connection:
    """Our key is added to those that may log in, if it is not there yet."""
    try:
        return await ssh.connect(address)
    except TPUError as error:
        if error.reason is not Reason.PERMISSION:
            raise
    public = await asyncio.to_thread(ssh.public_key, address.identity_file)
    await user_host.authorize(host, address.host_keys[0], public)
    try:
        return await ssh.connect(address)
    except TPUError as error:
        if error.reason is not Reason.PERMISSION:
            raise
        raise TPUError(
            f"{host.alias} refuses the key of jupyter-tpu, which was just added to "
            "~/.ssh/authorized_keys there.",
            Reason.PERMISSION,
            "Its sshd may read keys elsewhere: see AuthorizedKeysFile in its sshd_config.",
        ) from error


async def _inspect(alias: str) -> ResolvedMachine:
    host = await user_host.resolve(alias)
    return host, await user_host.shown_key(host)


async def _of_each(aliases: Sequence[str], call: Callable[[int], Awaitable[T]]) -> list[T]:
    """What *call* returns for each machine, by its number. The failure of one ends no other; raises
    what failed, with the machines, and how many did not fail.
    """
    limit = asyncio.Semaphore(_AT_ONCE)

    async def one(worker: int) -> T:
        async with limit:
            return await call(worker)

    results, failed = await gather_failures({index: one(index) for index in range(len(aliases))})
    if not failed:
        return list(results.values())
    messages = [
        error.message if aliases[worker] in error.message else f"{aliases[worker]}: {error.message}"
        for worker, error in failed.items()
    ]
    if len(aliases) > 1:
        others = other_hosts(len(results), "can be used", "can be used")
        messages.append(f"Nothing was attached.{others}")
    # Of several reasons the one that may be an attack decides what to do next.
    errors = list(failed.values())
    first = next((error for error in errors if error.reason is Reason.HOST_KEY), errors[0])
    raise error_for(" ".join(messages), first.reason, first.hint) from first


def _require_expected(request: AttachMachine, inspected: Sequence[ResolvedMachine]) -> None:
    shown: dict[str, str] = {}
    for host, key in inspected:
        other = shown.setdefault(key.fingerprint, host.alias)
        if other != host.alias:
            raise InvalidInput(
                f"{other} and {host.alias} show the same host key. They seem to be the same "
                "machine.",
                "List each machine once. If they were copied from one image, create new host keys "
                "on each: see `ssh-keygen -A`.",
            )
    if wrong := [host_key for host_key in request.host_keys if host_key not in shown]:
        keys = ", ".join(f"{alias} shows the host key {key}" for key, alias in shown.items())
        raise TPUError(
            f"{keys}, not the expected {', '.join(wrong)}. Nothing was attached.",
            Reason.HOST_KEY,
            "Someone may be intercepting the connection. Compare the fingerprint again.",
        )


def _require_known(request: AttachMachine, inspected: Sequence[ResolvedMachine]) -> None:
    """Raises HOST_KEY, with all keys that no one has confirmed."""
    unknown = {
        host.alias: key.fingerprint
        for host, key in inspected
        if not (key.known or key.fingerprint in request.host_keys)
    }
    if unknown:
        raise TPUError(
            " ".join(
                f"The host key of {alias} is not in your known hosts: {fingerprint}."
                for alias, fingerprint in unknown.items()
            ),
            Reason.HOST_KEY,
            f"Connect once with {' and '.join(f'`ssh {alias}`' for alias in unknown)}, and compare "
            "the fingerprint. Or compare it elsewhere, and add --host-key FINGERPRINT.",
        )


def in_googles_order(hosts: Sequence[AttachedHost]) -> list[int]:
    """Their places by Google's worker numbers, if all have one; else as they were given."""
    places = list(range(len(hosts)))
    numbers = [host.number for host in hosts]
    if sorted(number for number in numbers if number is not None) != places:
        return places
    return sorted(places, key=lambda place: numbers[place] or 0)


def require_one_slice(hosts: Sequence[AttachedHost]) -> None:
    """Raises INVALID for several machines whose chips can't be those of one TPU."""
    chips = {tuple(sorted(host.chips)) for host in hosts}
    if len(hosts) == 1 or (len(chips) == 1 and len(chips.pop()) in (0, _CHIPS_OF_SLICE)):
        return
    join = ", ".join(
        f"{host.alias} has {_chips_text(host.chips) if host.chips else 'none'}" for host in hosts
    )
    raise InvalidInput(
        f"The machines can't be the hosts of one TPU: {join}. Either each host has "
        f"{_CHIPS_OF_SLICE} chips of the same kind, or no host has chips. Nothing was attached.",
        "Attach each machine separately.",
    )


def _chips_text(chips: Sequence[str]) -> str:
    kinds = " ".join(sorted(set(filter(None, chips))))
    return count(len(chips), f"{kinds} chip".strip())


class _ConnectedHost:
    """A :class:`~jupyter_tpu.environment.RemoteHost` without a link: there is none yet."""

    def __init__(self, host: HostName, connection: ssh.Connection) -> None:
        self.host = host
        self.run = connection.run

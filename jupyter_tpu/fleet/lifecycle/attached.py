"""Machines that are reached by SSH alone: which host keys they show, attaching, forgetting."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import re
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from msgspec import structs

from ... import environment, ssh
from ...cloud import (
    AttachedHost,
    AttachedMachine,
    AttachedMachines,
    NodeName,
    attached_name,
    is_attached,
)
from ...concurrency import gather_failures, gather_or_cancel
from ...errors import InvalidInput, Reason, TPUError, error_for
from ...links import HostName, host_alias, read_host_number
from ...progress import StepPlan
from ...retired import refuse_tpu_node_address
from ...ssh import user_host
from ...wording import count, other_hosts
from ..core.core import Core
from ..core.known_operations import OperationProgress
from ..forwarding.apps import TensorBoardService
from ..jobs.job_records import FINAL
from ..kernels.kernels import shut_down_error
from ..models import TPU, AttachMachine, DetachMachine, Job, MachineCheck, MachineHost, Operation
from ..models.core import timestamp, validated
from .belongings import RunningWork
from .power import CANCEL_CONNECT

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
    inspected = await _of_each(request.ssh, lambda index: _inspect(request.ssh[index]))
    _require_expected(request, inspected)
    return inspected


async def attach_machines(
    name: str, request: AttachMachine, store: AttachedMachines
) -> AttachedMachine:
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
            alias=host_alias(id, index),
            name=host.alias,
            identity_file=identity,
        )
        for index, (host, shown) in enumerate(inspected)
    ]

    node = attached_name(name)
    hosts = await _of_each(
        request.ssh,
        lambda index: _examine(HostName(node, index), inspected[index][0], addresses[index]),
    )
    require_one_slice(hosts)
    order = in_googles_order(hosts)
    hosts = [hosts[place] for place in order]
    aliases = [host_alias(id, index) for index in range(len(hosts))]
    pin = functools.partial(
        ssh.KnownHosts().pin,
        {aliases[index]: addresses[place].host_keys for index, place in enumerate(order)},
        {alias: f"{node.path}/{index}" for index, alias in enumerate(aliases)},
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


async def _connect(host: user_host.UserHost, address: ssh.HostAddress) -> ssh.SSHConnection:
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

    async def one(index: int) -> T:
        async with limit:
            return await call(index)

    results, failed = await gather_failures({index: one(index) for index in range(len(aliases))})
    if not failed:
        return list(results.values())
    messages = [
        error.message if aliases[index] in error.message else f"{aliases[index]}: {error.message}"
        for index, error in failed.items()
    ]
    if len(aliases) > 1:
        others = other_hosts(len(results), "can be used", "can be used")
        messages.append(f"Nothing was attached.{others}")
    # The reason that may be an attack decides what to do next.
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
    """A :class:`~jupyter_tpu.links.remote_host.RemoteHost` without a link: there is none yet."""

    def __init__(self, host: HostName, connection: ssh.SSHConnection) -> None:
        self.host = host
        self.run = connection.run


#: Seconds to wait for the first list of TPUs.
_LIST_LIMIT = 10.0


class AttachedService:
    """The fleet's part ``attached``."""

    def __init__(
        self,
        core: Core,
        work: RunningWork,
        tensorboard: TensorBoardService,
    ) -> None:
        self._machines = AttachedMachines()
        self._finder = core.finder
        self._observer = core.observer
        self._connected = core.connected
        self._work = work
        self._tensorboard = tensorboard
        self._runner = core.runner
        self._shown = core.tpus.tpu
        self._attaching = asyncio.Lock()

    async def check(self, request: AttachMachine) -> MachineCheck:
        request = _valid(request)
        name = _name(request)
        return MachineCheck(
            name=name,
            hosts=[
                MachineHost(
                    ssh=host.alias,
                    address=host.address,
                    port=host.port,
                    user=host.user,
                    host_key=shown.fingerprint,
                    known=shown.known,
                )
                for host, shown in await inspect_machines(request)
            ],
        )

    async def attach(self, request: AttachMachine) -> TPU:
        request = _valid(request)
        name = _name(request)
        async with self._attaching:  # pressed twice: the second one finds it
            there = await asyncio.to_thread(self._machines.find, name)
            if there is None:
                await self._require_free(name)
                there = await attach_machines(name, request, self._machines)
        ordered = all(host.number is not None for host in there.hosts)  # by Google, not by the user
        aliases = sorted(request.ssh) if ordered else request.ssh
        if aliases != (sorted(there.aliases) if ordered else there.aliases):
            raise TPUError(
                f"The name {name} is already used for {', '.join(there.aliases)}.",
                Reason.EXISTS,
                f"Choose another name (in a terminal: --name), or detach {name} first.",
            )
        self._observer.upsert(there.node)
        return self._shown(attached_name(name))

    async def detach(self, ref: str, options: DetachMachine | None = None) -> Operation:
        options = validated(options or DetachMachine())
        name = await self._finder.find(ref)
        if not is_attached(name):
            raise TPUError(
                f"{name.node} is a Cloud TPU, not an attached machine.",
                Reason.CONFLICT,
                "`jupyter tpu disconnect` removes its kernels from Jupyter, and `jupyter tpu "
                "delete` deletes it.",
            )
        await self._work.require_confirmation(
            name, "Detaching", end_kernels=options.end_kernels, end_jobs=options.end_jobs
        )
        await self._runner.cancel_connects(name, CANCEL_CONNECT)
        return await self._runner.start_exclusive(
            self._runner.new_record("detach", name), lambda progress: self._detach(name, progress)
        )

    # ---- attaching -------------------------------------------------------------------------

    async def _require_free(self, name: str) -> None:
        """A name of a TPU would be ambiguous from then on. Raises EXISTS."""
        with contextlib.suppress(TimeoutError):  # a machine needs no cloud that answers
            async with asyncio.timeout(_LIST_LIMIT):
                await self._observer.ensure_recent()
        others = [node for node in self._observer.observed.nodes if not is_attached(node)]
        if same := [other for other in others if other.node == name]:
            raise TPUError(
                f"{name} is the name of a TPU in {same[0].zone}.",
                Reason.EXISTS,
                "Choose another name for the machine (in a terminal: --name).",
            )

    # ---- detaching -------------------------------------------------------------------------

    async def _detach(self, name: NodeName, progress: OperationProgress) -> None:
        progress.plan(
            [
                StepPlan("kernels", "Shut down kernels", 1),
                StepPlan("jobs", "Stop jobs", 1),
                StepPlan("forget", "Forget the machine", 1),
            ]
        )
        why = shut_down_error(f"detach {name.node}", "Choose the kernel of another TPU.")
        await self._work.shut_down_kernels(name, why, progress)
        await self._tensorboard.stop(name)
        progress.begin("jobs")
        await self._stop_jobs(name, progress)
        progress.done("jobs")
        progress.begin("forget")
        self._connected.forget(name)
        await asyncio.to_thread(self._machines.remove, name.node)
        self._observer.remove(name)
        progress.done("forget")

    async def _stop_jobs(self, name: NodeName, progress: OperationProgress) -> None:
        """Says of each job that is not known to have ended that it may continue."""
        ref = f"{name.zone}~{name.node}"
        jobs = self._work.jobs
        running = [job for job in await jobs.list(ref) if not job.over]

        async def stop(job: Job) -> None:
            hosts = (await jobs.stop(ref, job.id)).attempts[-1].hosts
            for host in hosts:
                which = f"{job.name} ({job.id})"
                if len(hosts) > 1:
                    which += f" on host {host.host}"
                if host.state == "stopping":
                    progress.log(f"The machine is stopping {which}")
                elif host.state not in FINAL:
                    progress.log(f"{which} may still run: {host.cause}")

        await gather_or_cancel([stop(job) for job in running])


def _valid(request: AttachMachine) -> AttachMachine:
    request = validated(request)
    for number, alias in enumerate(request.ssh):
        refuse_tpu_node_address(alias)
        if alias in request.ssh[:number]:
            raise InvalidInput(f"{alias} is listed twice.", "List each machine once.")
    return request


def _name(request: AttachMachine) -> str:
    """The name here; of "me@Box.example.com" alone that is "box"."""
    if request.name is not None:
        return request.name
    if len(request.ssh) > 1:
        raise InvalidInput(
            "Several machines need a name.", "Choose a name (in a terminal: --name)."
        )
    (alias,) = request.ssh
    short = alias.rpartition("@")[2].lower()
    if not re.fullmatch(r"[\d.]+", short):
        short = short.partition(".")[0]
    short = re.sub(r"[^a-z0-9]+", "-", short).strip("-")
    try:
        return validated(structs.replace(request, name=short)).name or short
    except InvalidInput:
        raise InvalidInput(
            f"{alias!r} can't be made into a TPU name.", "Choose a name (in a terminal: --name)."
        ) from None

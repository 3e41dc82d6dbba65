"""Asks all hosts of a TPU for what `diagnosis` needs. A host that fails keeps no other waiting."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import Reason, TPUError
from ..links.remote_host import RemoteHost
from ..on_host.agent.protocol.records import Owner
from ..on_host.agent.protocol.requests import GetProcessOwnersRequest, GetTimeRequest
from ..ssh.agent_answers import owners_by_pid
from ..ssh.host_values import InvalidAnswer
from .diagnosis import COORDINATOR_PORTS, ClockOffset, ExaminedHost, HostFacts
from .host_answers import CHIPS, ENVIRONMENTS, HeldChips, LockOutcome, Machine, Outcome
from .verification import single_host_variables

if TYPE_CHECKING:
    from ..ssh.agent_client import DaemonClient

#: Seconds for a link to come up, for a daemon's answer, and for a host's facts: in general, and
#: more for each environment, in which JAX is started.
CONNECT_SECONDS, ANSWER_SECONDS = 30.0, 30.0
FACTS_SECONDS, PER_ENVIRONMENT = 60.0, 120.0
#: Seconds for which host 0 listens while the others try to reach it.
LISTEN_SECONDS = 60.0
#: So many hosts are examined at a time.
AT_ONCE = 32


class ExaminableHost(RemoteHost, Protocol):
    """A host that can be examined; ``links.Link`` is one."""

    async def wait_up(self, timeout: float = ...) -> None: ...

    async def agent(self) -> DaemonClient: ...


async def examine(
    hosts: Sequence[ExaminableHost], environments: Mapping[str, str], internal: str
) -> list[ExaminedHost]:
    """What is known of each host, in order. Never raises TPUError.

    environments: their names, and the Python of those that were found on the hosts; else "".
    internal: the address of host 0 inside the network, for the ports between the hosts of a pod.
    """
    limit = asyncio.Semaphore(AT_ONCE)
    variables = single_host_variables(len(hosts))

    async def one(host: ExaminableHost) -> ExaminedHost:
        async with limit:
            return await _examine(host, environments, variables)

    examined = await asyncio.gather(*map(one, hosts))
    up = [
        examined_host for examined_host in examined if not isinstance(examined_host.facts, TPUError)
    ]
    if len(hosts) > 1:
        await _check_ports(hosts, up, internal, limit)
    return examined


async def _examine(
    host: ExaminableHost, environments: Mapping[str, str], variables: dict[str, str]
) -> ExaminedHost:
    number = host.host.number
    try:
        await host.wait_up(timeout=CONNECT_SECONDS)
        facts = await ENVIRONMENTS.call(
            host,
            "examine",
            timeout=FACTS_SECONDS + len(environments) * PER_ENVIRONMENT,
            environments=dict(environments),
            variables=variables,
        )
    except TPUError as error:
        return ExaminedHost(host=number, facts=error)
    examined = ExaminedHost(host=number, facts=facts)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await _ask_agent(await host.agent(), examined)
    except TPUError as error:
        examined.agent = error
    except TimeoutError:
        examined.agent = TPUError(
            f"The daemon on host {number} does not answer.",
            Reason.TIMEOUT,
            "Check again. If that does not help, restart the TPU.",
        )
    return examined


async def _ask_agent(agent: DaemonClient, examined: ExaminedHost) -> None:
    before = time.time()
    there = (await agent.request(GetTimeRequest()))["time"]
    # The host looked at its clock at some moment in between.
    examined.clock = ClockOffset(least=there - time.time(), most=there - before)
    if isinstance(examined.facts, HostFacts) and examined.facts.hardware.holders:
        pids = [holder.pid for holder in examined.facts.hardware.holders]
        owners = owners_by_pid(pids, await agent.request(GetProcessOwnersRequest(pids=pids)))
        named = {pid: _named(owner) for pid, owner in owners.items()}
        examined.owners = {pid: name for pid, name in named.items() if name}


def _named(owner: Owner) -> str:
    """What a process belongs to, to begin a sentence; "" for nothing of ours."""
    if owner["kernel"]:
        notebook = owner["notebook"].rpartition("/")[2]
        return f"The kernel of {notebook}" if notebook else "A kernel of jupyter-tpu"
    if owner["job"]:
        return f"The job {owner['job']}"
    return "A command of `jupyter tpu run`" if owner["run"] else ""


async def _check_ports(
    hosts: Sequence[ExaminableHost],
    up: Sequence[ExaminedHost],
    internal: str,
    limit: asyncio.Semaphore,
) -> None:
    """Sets what the hosts that are up, but for host 0, reach of it."""

    async def reach(examined: ExaminedHost) -> None:
        async with limit:
            try:
                examined.ports = await ENVIRONMENTS.call(
                    hosts[examined.host], "reach", timeout=LISTEN_SECONDS, **_ports(internal)
                )
            except TPUError as error:
                examined.ports = error

    others = [examined_host for examined_host in up if examined_host.host]
    if len(others) == len(up):
        return  # host 0 has a finding of its own
    try:
        async with _listening(hosts[0], internal):
            await asyncio.gather(*map(reach, others))
    except TPUError as error:
        for other in others:
            other.ports = other.ports or error


@contextlib.asynccontextmanager
async def _listening(host: ExaminableHost, address: str) -> AsyncIterator[None]:
    """While host 0 listens on the ports that programs of a pod use."""
    ready = asyncio.Event()
    listening = asyncio.ensure_future(
        ENVIRONMENTS.call(
            host,
            "listen",
            timeout=2 * LISTEN_SECONDS,
            part=lambda part: ready.set(),
            seconds=LISTEN_SECONDS,
            **_ports(address),
        )
    )
    waiting = asyncio.ensure_future(ready.wait())
    try:
        await asyncio.wait([listening, waiting], return_when=asyncio.FIRST_COMPLETED)
        if listening.done():
            await listening  # raises why it can't
        yield
    finally:
        waiting.cancel()
        listening.cancel()
        await asyncio.wait([listening, waiting])


def _ports(address: str) -> dict[str, Any]:
    return {"address": address, "ports": list(COORDINATOR_PORTS)}


#: Seconds for a host to look, and to end processes in addition to the patience with them.
LOOK_SECONDS, END_SECONDS = 30.0, 60.0


async def held_chips(host: RemoteHost) -> HeldChips:
    """Asks a host. Raises TPUError."""
    held: HeldChips = await CHIPS.call(host, "all_holders", timeout=LOOK_SECONDS)
    return held


async def end_holders(
    host: RemoteHost, processes: Sequence[tuple[int, str]], patience: float
) -> list[Outcome]:
    """Ends those of *processes* (pid and start) that still hold chips, and says how that went.

    patience: seconds between SIGTERM and SIGKILL. Raises TPUError.
    """
    outcomes: list[Outcome] = await CHIPS.call(
        host,
        "end_holders",
        timeout=END_SECONDS + 2 * patience,
        processes=list(processes),
        patience=patience,
    )
    if len(outcomes) != len(processes):
        raise InvalidAnswer("end_holders", f"Expected {len(processes)} outcomes")
    return outcomes


async def delete_lock_file(host: RemoteHost) -> LockOutcome:
    """Deletes libtpu's lock file on a host while no process holds the lock. Raises TPUError."""
    outcome: LockOutcome = await CHIPS.call(host, "delete_lock_file", timeout=LOOK_SECONDS)
    return outcome


async def describe_machine(host: RemoteHost) -> Machine:
    """What a machine says before it is attached. Raises NO_PYTHON, ENVIRONMENT, UNREACHABLE,
    TIMEOUT.
    """
    machine: Machine = await CHIPS.call(host, "describe_machine", timeout=FACTS_SECONDS)
    return machine

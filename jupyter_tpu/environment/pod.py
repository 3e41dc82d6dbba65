"""The check of a TPU with several hosts: JAX on all of them works as one."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import Reason, TPUError
from ..links.host_calls import MOST_ATTEMPTS
from ..links.remote_host import RemoteHost
from ..wording import count, hosts_text
from .host_answers import ENVIRONMENTS, Joined
from .models import ExpectedHardware

#: The ports on which `jax.distributed` may listen on host 0; those that Cloud TPU's programs use.
COORDINATOR_PORTS = range(8470, 8483)
#: So often it is tried, each time on another port: two servers may connect a TPU at once.
_MOST_ATTEMPTS = 3
#: Seconds for the other hosts to reach it, and for all hosts to join.
_REACH_SECONDS = 60
_JOIN_SECONDS = 60
_HINT = (
    "Allow TCP ports 8470 to 8482 between the hosts in the firewall of their network, and connect "
    "again. `jupyter tpu doctor` checks the ports."
)


async def require_pod(
    hosts: Sequence[RemoteHost],
    python: str,
    expected: ExpectedHardware,
    log: Callable[[str], None],
) -> None:
    """Has *python* (its path) of all *hosts*, if there are several, join in `jax.distributed`.

    Raises ENVIRONMENT, which names the hosts that are missing, and what calls raise.
    """
    if len(hosts) < 2 or not expected.coordinator:
        return
    for left, port in reversed(list(enumerate(random.sample(COORDINATOR_PORTS, _MOST_ATTEMPTS)))):
        try:
            return await _join_all(hosts, python, f"{expected.coordinator}:{port}", expected, log)
        except _JoinFailed as error:
            if not left:
                raise
            log(f"{error} Retrying on another port")


class _JoinFailed(TPUError):
    """A host reached host 0, and did not join."""


async def _join_all(
    hosts: Sequence[RemoteHost],
    python: str,
    coordinator: str,
    expected: ExpectedHardware,
    log: Callable[[str], None],
) -> None:

    async def join(index: int, host: RemoteHost) -> Any:
        return await ENVIRONMENTS.call(
            host,
            "join_pod",
            log=lambda line: log(f"host {index}: {line}"),
            timeout=_REACH_SECONDS + 2 * _JOIN_SECONDS + 60,
            attempts=MOST_ATTEMPTS,
            python=python,
            index=index,
            hosts=len(hosts),
            coordinator=coordinator,
            reach_limit=_REACH_SECONDS,
            join_limit=_JOIN_SECONDS,
        )

    answers = await asyncio.gather(*map(join, range(len(hosts)), hosts), return_exceptions=True)
    joined: list[Joined] = []
    for index, answer in enumerate(answers):
        if isinstance(answer, TPUError):
            answer.message = f"Host {index} did not join the others: {answer.message}"
            raise answer
        if isinstance(answer, BaseException):
            raise answer
        joined.append(answer)
    missing = [index for index, host_join in enumerate(joined) if not host_join.reached]
    if missing:
        who = hosts_text(missing).capitalize()
        raise TPUError(f"{who} can't reach host 0 at {coordinator}.", Reason.ENVIRONMENT, _HINT)
    for index, member in enumerate(joined):
        if member.error:
            raise _JoinFailed(
                f"JAX on host {index} did not join the other hosts: {member.error}.",
                Reason.ENVIRONMENT,
                "The log has details.",
            )
    devices = len(hosts) * (expected.devices_per_host or 0)
    for index, member in enumerate(joined):
        if member.hosts != list(range(len(hosts))) or (devices and member.devices != devices):
            has = f"{devices} on {len(hosts)} hosts" if devices else f"{len(hosts)} hosts"
            raise TPUError(
                f"JAX on host {index} sees {count(member.devices, 'device')} on "
                f"{hosts_text(member.hosts)}; this TPU has {has}.",
                Reason.ENVIRONMENT,
                "Restart the TPU. If that does not help, delete it and create it again."
                if devices
                else "Attach the machines in the order of the TPU's hosts. Attach machines of "
                "different TPUs separately.",
            )
    log(f"jax.distributed works: {len(hosts)} hosts, {joined[0].devices} devices")

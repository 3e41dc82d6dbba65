"""Ray on the hosts of a TPU: what is installed there, and how its cluster is."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated

from msgspec import Meta, Struct

from ...concurrency import gather_or_cancel
from ...errors import Reason, TPUError
from ...links.host_calls import HostProgram, Nothing, Port
from ...links.remote_host import RemoteHost
from ...on_host.packing import argument
from ...on_host.ray.node import known_addresses
from ...ssh.host_values import Address, Count, Token
from ...wording import hosts_text, phrase

__all__ = ["clear", "examine", "known_addresses", "missing_on", "require_ray", "require_space",
           "state", "variables"]  # fmt: skip
#: What is installed: Ray with its dashboard, and with what `import ray.train` needs.
REQUIREMENT = "ray[default,train]"
#: The first version with token authentication. Source: docs.ray.io, "Ray token authentication".
WITH_TOKENS = (2, 52)
#: Bytes that must be free before it is installed; it takes some 600 MB.
FREE_BYTES = 1 << 30
#: The variable with the program of a host. A job that has it is the Ray of its TPU.
PROGRAM = "JUPYTER_TPU_RAY"
#: The command of that job.
COMMAND = ["python3", "-c", f"import os; exec(os.environ.pop({PROGRAM!r}))"]


class RayOnHost(Struct, frozen=True, kw_only=True):
    """Ray in an environment of a host; see ``on_host.ray.state``."""

    version: Token  # "": it is not installed
    free: Count  # bytes
    ports: Annotated[list[Port], Meta(min_length=2, max_length=2)]
    token: Token


class RayNode(Struct, frozen=True, kw_only=True):
    address: Address
    alive: bool
    chips: Count
    processors: Count


class RayState(Struct, frozen=True, kw_only=True):
    """A cluster, as its head says it."""

    head: Address
    port: Annotated[int, Meta(ge=0, le=65535)]
    dashboard: Annotated[int, Meta(ge=0, le=65535)]
    version: Token
    answers: bool
    nodes: Annotated[list[RayNode], Meta(max_length=10_000)]
    token: Token


STATE_PROGRAM = HostProgram(
    "ray.state", {"examine_ray": RayOnHost, "ray_state": RayState, "clear_ray": Nothing}
)


async def examine(
    hosts: Sequence[RemoteHost], python: str, log: Callable[[str], None]
) -> list[RayOnHost]:
    """Ray in the environment of *python* (its path) on each host. Raises as `call`."""
    answers: list[RayOnHost] = await gather_or_cancel(
        [
            STATE_PROGRAM.call(host, "examine_ray", log=log, timeout=90, python=python)
            for host in hosts
        ]
    )
    return answers


def missing_on(hosts: Sequence[RayOnHost]) -> list[int]:
    """The numbers of the hosts that do not have the Ray of host 0, or any Ray at all."""
    return [
        number
        for number, host in enumerate(hosts)
        if not host.version or host.version != hosts[0].version
    ]


def require_ray(hosts: Sequence[RayOnHost], tpu: str, environment: str) -> None:
    """Raises ENVIRONMENT if Ray can't be started: it is missing, too old, or not the same."""
    install = f"Install it: jupyter tpu ray start {tpu} --env {environment} --install"
    where = f"the environment {environment} of {tpu}"
    if not hosts[0].version:
        raise TPUError(f"Ray is not installed in {where}.", Reason.ENVIRONMENT, install)
    if missing := missing_on(hosts):
        one = hosts[missing[0]].version
        ours, others = hosts[0].version, hosts_text(missing)
        has = phrase(f"Ray {one}" if one else "no Ray")
        raise TPUError(
            f"Host 0 has Ray {ours}, and {others} has {has}."
            if len(missing) == 1
            else f"Host 0 has Ray {ours}, and {others} have {has}.",
            Reason.ENVIRONMENT,
            install.replace("Install it", "Install the same on all hosts"),
        )
    if _numbers(hosts[0].version) < WITH_TOKENS:
        oldest = ".".join(map(str, WITH_TOKENS))
        raise TPUError(
            f"Ray {hosts[0].version} in {where} has no token authentication: whoever reaches its "
            "ports could run code.",
            Reason.ENVIRONMENT,
            f"Install a newer one: jupyter tpu env add {tpu} --env {environment} "
            f"'{REQUIREMENT}>={oldest}'",
        )


def require_space(hosts: Sequence[RayOnHost]) -> None:
    """Raises DISK_FULL if Ray can't be installed."""
    for number, host in enumerate(hosts):
        if not host.version and host.free < FREE_BYTES:
            raise TPUError(
                f"Only {host.free >> 20} MiB of the disk of host {number} are free. Ray needs "
                f"{FREE_BYTES >> 20}.",
                Reason.DISK_FULL,
                "Delete files there, or create the TPU with a larger disk.",
            )


def variables(
    hosts: Sequence[RayOnHost], token: str, *, tpu: str, emulated_chips: int | None
) -> dict[str, str]:
    """The variables of the job that runs Ray on *hosts*; see ``on_host.ray.node``.

    emulated_chips: of each host, if they are emulated; real ones are counted there.
    """
    settings = {
        PROGRAM: argument("ray.node"),
        "JUPYTER_TPU_RAY_PORTS": ",".join(map(str, hosts[0].ports)),
        "RAY_AUTH_TOKEN": token,
    }
    if emulated_chips is not None:
        settings |= {"JUPYTER_TPU_RAY_CHIPS": str(emulated_chips), "JUPYTER_TPU_RAY_NAME": tpu}
    return settings


async def state(host: RemoteHost) -> RayState:
    """How the cluster is of which this host is the head."""
    answer: RayState = await STATE_PROGRAM.call(host, "ray_state", log=_ignore, timeout=60)
    return answer


async def clear(host: RemoteHost) -> None:
    """Removes what a cluster that was killed has left."""
    await STATE_PROGRAM.call(host, "clear_ray", log=_ignore, timeout=60)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def _ignore(line: str) -> None:
    pass

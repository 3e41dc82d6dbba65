"""Creating an environment on all hosts of a TPU, and the Pythons that were there before."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence

import msgspec
from msgspec import structs

from ... import environment, ssh
from ...cloud import Node
from ...concurrency import gather_or_cancel
from ...environment import FoundPython, FoundPythons, existing_pythons
from ...errors import Reason, TPUError
from ...links import HostName, Link
from ...progress import StepPlan
from ..core.connections import ANSWER_SECONDS, HostConnections
from ..core.core import Core
from ..core.known_operations import OperationProgress
from ..core.records import EnvironmentRecord
from ..core.state_folder import Locks
from ..models import ConnectTPU, Environment, EnvironmentLock, HostVersions, Problem
from ..models.core import known_type, timestamp

#: How long the links may take to come up; a TPU that just became ready needs a while. Seconds.
LINKS_UP = 180.0

LINKS = StepPlan("links", "Connect to the hosts", 8)


def steps(request: ConnectTPU) -> list[StepPlan]:
    """The steps of `create_environment`."""
    existing = request.python_path is not None
    own = environment.existing_pythons.STEPS if existing else environment.plan(request)
    return [StepPlan("key", "SSH key", 1), LINKS, *own]


async def create_environment(
    node: Node,
    request: ConnectTPU,
    connections: HostConnections,
    progress: OperationProgress,
    *,
    emulated: bool,
) -> tuple[Environment, environment.CreatedEnvironment]:
    """Connects to the hosts and creates *request* there, step by step."""
    name = node.name
    progress.begin("key")
    key = await asyncio.to_thread(ssh.ensure_key)
    progress.log(f"SSH key: {key}")
    progress.done("key")

    links = connections.acquire(name, len(node.endpoints))
    await connect_hosts(links, progress)

    accelerator = known_type(node.type)
    expected = environment.ExpectedHardware(
        emulated=emulated,
        devices_per_host=accelerator.devices_per_host if accelerator else None,
        coordinator=node.endpoints[0].internal if node.endpoints else "",
        generation=accelerator.generation if accelerator else "",
    )
    try:
        if request.python_path is not None:
            created = await environment.existing_pythons.use(
                links,
                request.python_path,
                expected,
                progress,
                install_ipykernel=request.install_ipykernel,
            )
        else:
            created = await environment.create(links, request, expected, progress)
    except TPUError as error:
        if error.reason is Reason.CPU_FALLBACK:
            error.hint += f" To check all hosts: jupyter tpu doctor {name.node}"
        raise
    if request.python_path is None:
        framework = environment.framework_of(request)
    else:
        framework = "torch" if created.torch and not created.jax else "jax"
    ready = Environment(
        name=request.environment,
        tpu=name.node,
        zone=name.zone,
        state="ready",
        python=created.python,
        jax=created.jax,
        torch=created.torch,
        path=created.path,
        python_path=created.python_path,
        **request.content | {"packages": created.requested.packages, "framework": framework},
        versions=HostVersions(time=timestamp()) if created.lock and len(links) > 1 else None,
        devices=created.devices,
        platform=created.platform,
        problem=None if created.warning is None else Problem.of(created.warning),
    )
    return ready, created


async def wait_until_up(link: Link) -> None:
    await link.wait_up(timeout=LINKS_UP)


async def connect_hosts(links: Sequence[Link], progress: OperationProgress) -> None:
    """The step LINKS."""
    progress.begin(LINKS.key)
    await gather_or_cancel([_connect(link, progress) for link in links])
    progress.done(LINKS.key)


async def _connect(link: Link, progress: OperationProgress) -> None:
    await wait_until_up(link)
    progress.log(f"Connected to host {link.host.number}")
    progress.host_done(LINKS.key)


def merge_request(before: EnvironmentRecord | None, request: ConnectTPU) -> ConnectTPU:
    """Connecting again keeps what was asked for earlier.

    Where that failed, a request with options replaces the earlier one: what was wrong must not
    stay forever.
    """
    plain = request == ConnectTPU(environment=request.environment)
    if before is None or (before.environment.state == "failed" and not plain):
        return request
    has = environment.framework_of(before.request)
    if (request.framework or request.lock) and environment.framework_of(request) != has:
        raise environment.framework_conflict(request.environment, has)
    return add_request(before.request, request)


def add_request(earlier: ConnectTPU, request: ConnectTPU) -> ConnectTPU:
    """What both ask for; where they differ, as *request* says."""
    setup = request.setup
    if not request.replace_setup:
        setup = _merge_setup(earlier.setup, setup)
    locked = request if request.lock else earlier
    return ConnectTPU(
        environment=request.environment,
        framework=request.framework or earlier.framework,
        python=request.python or earlier.python,
        packages=environment.packages.merge(earlier.packages, request.packages),
        requirements=request.requirements or earlier.requirements,
        lock=locked.lock,
        resolve_again=locked.resolve_again,
        python_path=request.python_path or earlier.python_path,
        install_ipykernel=request.install_ipykernel or earlier.install_ipykernel,
        setup=setup,
    )


def _merge_setup(
    before: environment.HostSetup, setup: environment.HostSetup
) -> environment.HostSetup:
    names = {package.partition("=")[0]: package for package in (*before.apt, *setup.apt)}
    return environment.HostSetup(
        apt=list(names.values()),
        timezone=setup.timezone or before.timezone,
        oh_my_zsh=setup.oh_my_zsh or before.oh_my_zsh,
        script=setup.script or before.script,
    )


async def earlier_lock(
    locks: Locks, request: ConnectTPU, *, emulated: bool
) -> EnvironmentLock | None:
    """What a new environment is to have: what one of that name has on another TPU.

    None for the default name, which has the newest versions, and if anything was asked for.
    """
    plain = request == ConnectTPU(environment=request.environment)
    if not plain or request.environment == ConnectTPU().environment:
        return None
    return await locks.find(request.environment, emulated=emulated)


def locked_request(request: ConnectTPU, lock: EnvironmentLock) -> ConnectTPU:
    """A new environment with what another TPU's has."""
    first = environment.locks.heading(f"{lock.environment} on {lock.tpu}", lock.python, lock.time)
    return msgspec.structs.replace(
        request, lock=first + lock.text, resolve_again=True, **lock.content
    )


def lock_of(node: Node, of: Environment, text: str, *, emulated: bool) -> EnvironmentLock:
    """The exact versions of an environment; *text* is its packages."""
    return EnvironmentLock(
        environment=of.name,
        text=text,
        **of.content,
        python=of.python,
        tpu=node.name.node,
        type=node.type,
        time=timestamp(),
        emulated=emulated,
    )


def record_of(
    node: Node,
    request: ConnectTPU,
    created: Environment,
    before: EnvironmentRecord | None,
    requested: environment.Requested | None = None,
) -> EnvironmentRecord:
    """What is remembered of an environment; what was decided on its warm kernel stays."""
    if requested is not None:
        request = msgspec.structs.replace(request, packages=requested.packages)
    elif before is not None:
        requested = environment.Requested(revision=before.revision)
    return EnvironmentRecord(
        node_id=node.id,
        request=request,
        environment=created,
        hosts=len(node.endpoints),
        warm=before.warm if before is not None else None,
        revision=requested.revision if requested is not None else 0,
    )


def unfinished_record(
    node: Node, request: ConnectTPU, before: EnvironmentRecord | None, error: TPUError | None = None
) -> EnvironmentRecord:
    """What is remembered while an environment is being created, or after that failed.

    What was ready before stays so.
    """
    problem = Problem.of(error) if error else None
    if before is not None and before.environment.state == "ready":
        before.environment.problem = problem
        before.environment.asked = request if problem else None
        shown = before.environment
    else:
        shown = Environment(
            name=request.environment,
            tpu=node.name.node,
            zone=node.name.zone,
            state="failed" if problem else "making",
            problem=problem,
            python_path=request.python_path or "",
            **request.content | {"framework": environment.framework_of(request)},
            asked=request if problem else None,
        )
    kept = before.request if error and before is not None else request
    return record_of(node, kept, shown, before)


class HostPythons:
    """A :class:`~jupyter_tpu.fleet.api.PythonsAPI`."""

    def __init__(self, core: Core) -> None:
        self._finder = core.finder
        self._connections = core.connections
        self._desired = core.desired

    async def list(self, ref: str, path: str | None = None) -> FoundPythons:
        node = await self._finder.find_ready(ref)

        async def ask(host_number: int) -> existing_pythons.OnHost | TPUError:
            try:
                async with self._connections.borrow(
                    HostName(node.name, host_number), ANSWER_SECONDS
                ) as link:
                    return await existing_pythons.on_host(link, path or "")
            except TPUError as error:
                return error

        merged = existing_pythons.merge(
            await gather_or_cancel(list(map(ask, range(len(node.endpoints)))))
        )
        records = self._desired.environments(node.name).values()
        used = {
            record.environment.python_path: record.environment.name
            for record in records
            if record.environment.python_path
        }
        # One that was found and failed may be replaced.
        in_use = {
            record.environment.name
            for record in records
            if not (record.is_existing and record.environment.state == "failed")
        }
        named = []
        for python in merged.pythons:
            name = used.get(python.path, "")
            suggested = name or unused_name(python, in_use)
            in_use.add(suggested)
            named.append(structs.replace(python, environment=name, name=suggested))
        return structs.replace(merged, pythons=named)


def unused_name(python: FoundPython, in_use: Iterable[str]) -> str:
    """A name for an environment: the one of the Python's folder, where it has one of its own."""
    own = python.kind in ("venv", "conda")
    parts = [part.strip("._-") for part in python.prefix.lower().split("/")]
    name = parts[-1] if own else f"python{'.'.join(python.version.split('.')[:2])}"
    if own and name in ("venv", "env") and len(parts) > 4:  # in a project's folder
        name = f"{parts[-2]}-{name}"
    name = re.sub(r"[^a-z0-9._-]+", "-", name).strip("._-")[:36].rstrip("._-") or "found"
    numbered = (f"{name}-{number}" for number in range(2, 1000))
    return (
        name
        if name not in in_use
        else next(candidate for candidate in numbered if candidate not in in_use)
    )

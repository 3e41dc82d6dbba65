"""Environments that are there: what is in them, and operations that change or remove them.

Kernels change packages, too (``%pip install``). Host 0 records that, each poll reports it, and the
other hosts follow.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from ...cloud import NodeName
from ...environment import Requested, SyncedPackages, packages
from ...errors import InvalidInput, Reason, TPUError
from ...links import Link
from ..core import checks
from ..core.core import Core
from ..core.known_operations import OperationProgress
from ..core.records import EnvironmentRecord
from ..core.view import TPUFacts
from ..kernels.kernels import KernelService, shut_down_error
from ..kernels.slice_kernels import WarmKernelMonitor
from ..models import (
    ChangePackages,
    Environment,
    EnvironmentKernelspec,
    EnvironmentLock,
    HostVersions,
    InstalledPackage,
    KeepWarm,
    Operation,
    Problem,
    RemoveEnvironment,
)
from ..models.core import timestamp, validated
from ..models.operation_kinds import KINDS
from .environment import LINKS, connect_hosts, lock_of, wait_until_up

log = logging.getLogger(__name__)

_T = TypeVar("_T")


class EnvironmentService:
    """The environments of TPUs, as an :class:`~jupyter_tpu.fleet.api.EnvironmentsAPI`."""

    def __init__(self, core: Core, kernels: KernelService, warm: WarmKernelMonitor) -> None:
        self._finder = core.finder
        self._desired = core.desired
        self._observer = core.observer
        self._connections = core.connections
        self._connected = core.connected
        self._kernels = kernels
        self._warm = warm
        self._runner = core.runner
        self._locks = core.locks
        self._wake = core.polled.wake
        #: Revisions that the other hosts could not follow, or should not; not tried again.
        self._failed: dict[tuple[NodeName, str], int] = {}
        core.tpus.register(self._describe)

    def _describe(self, facts: TPUFacts) -> None:
        facts.environments = [*self._last_known(facts.name)]

    async def list(self, ref: str) -> Sequence[Environment]:
        return self._last_known(await self._finder.find(ref))

    def _last_known(self, name: NodeName) -> Sequence[Environment]:
        """The environments of a TPU."""
        return [
            msgspec.structs.replace(record.environment, warm=self._warm.status(name, environment))
            for environment, record in self._desired.environments(name).items()
        ]

    async def keep_warm(self, ref: str, environment: str, options: KeepWarm) -> Environment:
        name = await self._finder.find(ref)
        self._warm.configure(name, environment, options)
        self._wake()
        return next(entry for entry in self._last_known(name) if entry.name == environment)

    async def list_packages(self, ref: str, environment: str) -> Sequence[InstalledPackage]:
        """Raises NOT_FOUND, CONFLICT for a TPU that is not READY."""
        name = await self._finder.find(ref)
        self._require(name, environment, changeable=True)
        return await self._on_host_0(name, lambda link: packages.installed(link, environment))

    async def get_lock(self, ref: str, environment: str) -> EnvironmentLock:
        """Raises as :meth:`list_packages`."""
        name = await self._finder.find(ref)
        lock = await self._lock(name, environment)
        # Cells may have changed what was verified when it was created.
        error = await self._on_host_0(name, lambda link: packages.import_failure(link, environment))
        return msgspec.structs.replace(lock, problem=Problem.of(error) if error else None)

    async def _lock(self, name: NodeName, environment: str) -> EnvironmentLock:
        record = self._require(name, environment, changeable=True)
        text = await self._on_host_0(name, lambda link: packages.lock(link, environment))
        return await self._keep_lock(name, record, text)

    async def get_kernelspec(self, ref: str, environment: str) -> EnvironmentKernelspec:
        """Raises NOT_FOUND, and CONFLICT for one that is not ready."""
        name = await self._finder.find(ref)
        made = self._require(name, environment).environment
        if made.state != "ready":
            raise _not_ready(name, environment)
        return EnvironmentKernelspec(
            tpu=name.node, zone=name.zone, environment=environment, kernelspec=made.kernelspec
        )

    async def change_packages(
        self, ref: str, environment: str, request: ChangePackages
    ) -> Operation:
        """Raises INVALID, NOT_FOUND, and CONFLICT unless the TPU is READY and idle."""
        name = await self._finder.find(ref)
        request = validated(request)
        checks.check_requirements(request.add)
        checks.check_names(request.remove)
        if not request.add and not request.remove:
            raise InvalidInput("No package was given.", "Name one, such as einops.")
        _check_removable(request.remove)
        record = self._require(name, environment, changeable=True)

        async def work(progress: OperationProgress) -> None:
            progress.plan([LINKS, packages.CHANGE, packages.SYNC], hosts=record.hosts)
            await self._on_hosts(
                name,
                environment,
                progress,
                lambda links: packages.change(
                    links, environment, request.add, request.remove, progress
                ),
            )

        return await self._runner.start_exclusive(
            self._runner.new_record("environment", name), work
        )

    async def sync_packages(self, ref: str, environment: str) -> Operation:
        """Raises NOT_FOUND, and CONFLICT unless the TPU is READY and idle."""
        name = await self._finder.find(ref)
        record = self._require(name, environment, changeable=True)

        async def work(progress: OperationProgress) -> None:
            progress.plan([LINKS, packages.SYNC], hosts=record.hosts)
            await self._on_hosts(
                name,
                environment,
                progress,
                lambda links: packages.sync(links, environment, progress),
            )

        return await self._runner.start_exclusive(
            self._runner.new_record("environment", name), work
        )

    async def remove(
        self, ref: str, environment: str, options: RemoveEnvironment | None = None
    ) -> Operation:
        """Raises NOT_FOUND, KERNELS_RUNNING unless *options* allow it, CONFLICT unless idle."""
        name, options = await self._finder.find(ref), options or RemoveEnvironment()
        record = self._require(name, environment)
        await self._kernels.require_confirmation(
            name, options.end_kernels, "Removing the environment", environment
        )

        async def work(progress: OperationProgress) -> None:
            progress.plan([LINKS, packages.REMOVE], hosts=record.hosts)
            ready = self._observer.observed.is_ready(name)
            if ready:
                why = shut_down_error(
                    f"remove its environment {environment}", "Choose another kernel."
                )
                await self._kernels.shut_down_all(name, why, progress.log, environment)
            if ready and not record.is_existing:
                links, release = self._links(name)
                try:
                    await connect_hosts(links, progress)
                    await packages.remove(links, environment, progress)
                finally:
                    release()
            self._connected.remove_environment(name, environment)
            progress.log(
                f"Removed the kernel of {record.environment.path} from Jupyter; its files stay"
                if record.is_existing
                else f"Removed the environment {environment}"
            )
            self._wake()

        return await self._runner.start_exclusive(
            self._runner.new_record("environment", name), work
        )

    # ---- what kernels change ----

    async def follow(self, name: NodeName, reports: Mapping[str, Any]) -> None:
        """Takes the agent's report of what is asked for in each environment: {name: Requested}."""
        if any(
            KINDS[operation_record.operation.kind].exclusive
            for operation_record in self._runner.known.running_on(name)
        ):
            return  # it changes them itself; the next report is compared again
        for environment, record in list(self._desired.environments(name).items()):
            if (
                environment not in reports
                or record.environment.state != "ready"
                or record.is_existing
            ):
                continue
            if record.environment.asked is not None:
                continue  # a change failed halfway: it is repeated, or another one follows
            try:
                requested = msgspec.convert(reports[environment], Requested)
            except msgspec.ValidationError as error:
                log.warning("Host 0 of %s reports packages that are none: %s", name.node, error)
                continue
            if requested.revision == record.revision:
                continue
            if record.hosts == 1:
                self._save(name, record, requested)
                with contextlib.suppress(TPUError):  # the next change saves it
                    await self._lock(name, environment)
            elif self._failed.get((name, environment)) != requested.revision:
                await self._sync(name, record, requested)
                return  # one operation at a time

    async def _sync(self, name: NodeName, record: EnvironmentRecord, news: Requested) -> None:
        environment = record.environment.name

        async def work(progress: OperationProgress) -> None:
            progress.plan([LINKS, packages.SYNC], hosts=record.hosts)
            try:
                await self._on_hosts(
                    name,
                    environment,
                    progress,
                    lambda links: packages.sync(links, environment, progress),
                )
            except asyncio.CancelledError:
                self._failed[name, environment] = news.revision  # it does not retry
                raise
            except TPUError as error:
                self._failed[name, environment] = news.revision
                record.environment.problem = Problem(
                    message=f"The packages of host 0 are not on all hosts. {error.message}",
                    reason=error.reason,
                    hint="Connect again to install them there.",
                )
                self._desired.save(name, record)
                raise

        await self._runner.start(self._runner.new_record("environment", name), work)

    async def install(
        self,
        name: NodeName,
        environment: str,
        add: Sequence[str],
        links: Sequence[Link],
        progress: OperationProgress,
    ) -> None:
        """Installs *add* in the course of another operation, which has planned the steps, and gives
        all hosts what is on host 0 then. Raises CONFLICT for an environment that is not ours.
        """
        self._require(name, environment, changeable=True)
        if add:
            synced = await packages.change(links, environment, add, [], progress)
        else:
            progress.done(packages.CHANGE.key, "skipped")
            synced = await packages.sync(links, environment, progress)
        await self._save_synced(name, environment, synced)

    # ---- inside ----

    async def _on_host_0(self, name: NodeName, work: Callable[[Link], Awaitable[_T]]) -> _T:
        links, release = self._links(name)
        try:
            await wait_until_up(links[0])
            return await work(links[0])
        finally:
            release()

    async def _on_hosts(
        self,
        name: NodeName,
        environment: str,
        progress: OperationProgress,
        work: Callable[[Sequence[Link]], Awaitable[SyncedPackages]],
    ) -> None:
        """Runs *work* on all hosts, and saves what is asked for then."""
        links, release = self._links(name)
        try:
            await connect_hosts(links, progress)
            synced = await work(links)
        finally:
            release()
        await self._save_synced(name, environment, synced)

    async def _save_synced(self, name: NodeName, environment: str, synced: SyncedPackages) -> None:
        record = self._require(name, environment)
        if record.hosts > 1:
            record.environment.versions = HostVersions(time=timestamp())
        self._save(name, record, synced.requested, synced.warning)
        await self._keep_lock(name, record, synced.lock)

    async def _keep_lock(
        self, name: NodeName, record: EnvironmentRecord, text: str
    ) -> EnvironmentLock:
        """Saves the exact versions of an environment, for the next TPU."""
        node = self._observer.observed.require_hosts(name)
        lock = lock_of(node, record.environment, text, emulated=self._observer.without_chips(node))
        await self._locks.save(lock)
        return lock

    def _save(
        self,
        name: NodeName,
        record: EnvironmentRecord,
        requested: Requested,
        warning: TPUError | None = None,
    ) -> None:
        record.request = msgspec.structs.replace(record.request, packages=requested.packages)
        record.environment.packages = requested.packages
        record.environment.problem = Problem.of(warning) if warning else None
        record.environment.asked = None
        record.revision = requested.revision
        self._desired.save(name, record)

    def _links(self, name: NodeName) -> tuple[Sequence[Link], Callable[[], None]]:
        """The links to all hosts, held until the second is called."""
        node = self._observer.observed.require_hosts(name)
        held = name in self._connections
        links = self._connections.acquire(name, len(node.endpoints))
        return links, (lambda: None) if held else lambda: self._connections.release(name)

    def _require(
        self, name: NodeName, environment: str, *, changeable: bool = False
    ) -> EnvironmentRecord:
        """changeable: it must be ready, with packages that may be changed."""
        environments = self._desired.environments(name)
        record = environments.get(environment)
        if record is None:
            known = ", ".join(environments) or "none"
            raise TPUError(
                f"{name.node} has no environment {environment}. Its environments: {known}.",
                Reason.NOT_FOUND,
                f"Create it: jupyter tpu connect {name.node} --env {environment}"
                if changeable
                else "",
            )
        if changeable and record.is_existing:
            raise TPUError(
                f"The environment {environment} was found on {name.node}. jupyter-tpu does not "
                "change its packages.",
                Reason.CONFLICT,
                "Change them on its hosts: jupyter tpu ssh " + name.node,
            )
        if changeable and record.environment.state != "ready":
            raise _not_ready(name, environment)
        return record


def _not_ready(name: NodeName, environment: str) -> TPUError:
    return TPUError(
        f"The environment {environment} on {name.node} is not ready.",
        Reason.CONFLICT,
        "Connect again to complete it, or remove it.",
    )


def _check_removable(names: Sequence[str]) -> None:
    for name in names:
        if packages.name_of(name) in packages.REQUIRED:
            raise InvalidInput(f"{name} can't be removed: kernels on TPUs need it.")

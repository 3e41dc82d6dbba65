"""What a TPU has: kernels and jobs that would end with it, and what its replacement gets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from msgspec import structs

from ...cloud import Node, NodeName
from ...errors import TPUError
from ..core.core import Core
from ..core.known_operations import OperationProgress
from ..core.operation_records import Belongings, FolderShare, RestoredEnvironment
from ..core.records import EnvironmentRecord
from ..files.shares import ShareService
from ..files.sync import SyncService
from ..forwarding.tunnels import Tunnels
from ..homes.before_end import HomesBeforeEnd
from ..jobs.jobs import JobService
from ..kernels.kernels import KernelService
from ..models import Consequences, ConsequencesQuery, OpenTunnel, SharedFolders, ShareFolder
from ..sessions.before_end import SessionsBeforeEnd
from .consequences import consequences

#: How long its hosts may take to say which kernels they have, while a user waits for a question,
#: and which folders they share.
_LOOK_SECONDS, _ANSWER_SECONDS = 4.0, 20.0


class RunningWork:
    """Asks before it ends, and ends what may end."""

    def __init__(
        self,
        core: Core,
        kernels: KernelService,
        jobs: JobService,
        sessions: SessionsBeforeEnd,
        homes: HomesBeforeEnd,
    ) -> None:
        self._tpus = core.tpus
        self._sessions = sessions
        self._homes = homes
        self.kernels = kernels
        self.jobs = jobs

    async def consequences(self, query: ConsequencesQuery, name: NodeName) -> Consequences:
        """What it would end and take away. Its hosts are asked, but not waited for."""
        jobs, answered = await self.jobs.running(name), True
        try:
            kernels = await self.kernels.fetch_running(name, _LOOK_SECONDS)
        except TPUError:
            kernels, answered = self.kernels.last_known_running(name), False
        kept = self._sessions.consequences(name, query.act, kernels)
        homes = self._homes.sentences(name, query.act)
        return consequences(
            query, self._tpus.tpu(name), kernels, jobs, kept, homes, answered=answered
        )

    async def require_confirmation(
        self, name: NodeName, act: str, *, end_kernels: bool, end_jobs: bool
    ) -> None:
        """Raises KERNELS_RUNNING or JOBS_RUNNING if such run there, and may not be ended.

        act: what would end them: "Stopping".
        """
        await self.kernels.require_confirmation(name, end_kernels, act)
        await self.jobs.require_confirmation(name, end_jobs, act)

    async def shut_down_kernels(
        self, name: NodeName, why: TPUError, progress: OperationProgress
    ) -> None:
        """The first step of what ends the kernels of a TPU. *why*: see ``shut_down_all``."""
        progress.begin("kernels")
        count = await self.kernels.shut_down_all(name, why, progress.log)
        progress.done("kernels", "done" if count else "skipped")


Log = Callable[[str], None]


class TPUBelongings:
    """The environments are created by the connects that follow; see `ConnectService.follow`."""

    def __init__(
        self, core: Core, tunnels: Tunnels, sync: SyncService, shares: ShareService
    ) -> None:
        self._core = core
        self._tunnels = tunnels
        self._sync = sync
        self._shares = shares

    # ---- of the TPU that is there ----

    async def find(self, node: Node) -> tuple[Belongings, list[str]]:
        """What the new TPU gets, and what it does not, each in a sentence."""
        connected = node.name in self._core.desired.connected
        records = self._records(node.name)
        lost = [] if connected else [_not_created(record) for record in records]
        records = records if connected else []
        lost += [
            f"The environment {record.environment.name} uses {record.request.python_path} of the "
            "host. The new one needs that, too."
            for record in records
            if record.is_existing
        ]
        shares, problem = await self._folders(node)
        if problem:
            lost.append(f"{problem} Folders that they share are not shared again.")
        belongings = Belongings(
            environments=[self._restored(node.name, record) for record in records],
            tunnels=[
                OpenTunnel(
                    port=record.port,
                    local_port=record.local_port,
                    host=record.host,
                    address=record.address,
                )
                for record in self._tunnels.kept(node.name)
            ],
            syncs=self._sync.projects(node.name, node.id),
            shares=shares,
        )
        return belongings, lost

    def _records(self, name: NodeName) -> list[EnvironmentRecord]:
        """The records of its environments, the usual one first."""
        records = self._core.desired.environments(name).values()
        return sorted(records, key=lambda record: record.environment.name != "default")

    def _restored(self, name: NodeName, record: EnvironmentRecord) -> RestoredEnvironment:
        chips = self._core.connected.chips(name, record.environment.name)
        return RestoredEnvironment(
            connect=structs.replace(record.request, then_run=""), warm=record.warm, chips=chips
        )

    async def _folders(self, node: Node) -> tuple[list[FolderShare], str]:
        """The folders that its hosts share, and why they are not known; "" if they are."""
        folders, problem = SharedFolders(folders=[]), ""
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                folders = await self._shares.list(f"{node.name.zone}~{node.name.node}")
            problem = " ".join(folders.problems)
        except TimeoutError:
            problem = "Its hosts did not answer."
        except TPUError as error:
            problem = error.message
        if problem and (known := self._shares.last_known(node)) is not None:
            folders, problem = known, ""
        shares = []
        for folder in folders.folders:
            others = {state.tpu for state in folder.hosts} - {folder.tpu}
            request = ShareFolder(folder=folder.path, tpus=sorted(others))
            shares.append(FolderShare(tpu=folder.tpu, request=request))
        return shares, problem

    def projects(self, node: Node) -> Belongings:
        """What a TPU gets that a hunt finds in place of one that was preempted, without asking."""
        return Belongings(syncs=self._sync.projects(node.name, node.id))

    # ---- of the new one ----

    async def restore(self, name: NodeName, belongings: Belongings, log: Log) -> None:
        """What needs no environment; what fails is logged. Again, it changes nothing."""
        ref = f"{name.zone}~{name.node}"
        for tunnel in belongings.tunnels:
            try:
                await self._tunnels.open(ref, tunnel)
            except TPUError as error:
                log(f"The tunnel to port {tunnel.port} could not be opened again: {error.message}")
        if (node := self._core.observed.node(name)) is not None:
            for problem in await self._sync.bring_back(node, belongings.syncs):
                log(problem)
        if not belongings.environments:
            await self.share(name, belongings, log)

    async def share(self, name: NodeName, belongings: Belongings, log: Log) -> None:
        """Shares its folders again, which installs packages: after the environments."""
        for share in belongings.shares:
            try:
                await self._shares.start(f"{name.zone}~{share.tpu}", share.request)
            except TPUError as error:
                log(f"{share.request.folder} is not shared again: {error.message}")


def words(belongings: Belongings) -> list[str]:
    """What comes back, in sentences."""
    sentences = []
    if names := [restored.connect.environment for restored in belongings.environments]:
        listed = ", ".join(names)
        sentences.append(
            f"The environment {listed} is created again, with the packages and kernels."
            if len(names) == 1
            else f"The environments {listed} are created again, with the packages and kernels."
        )
    if ports := [f"{tunnel.local_port} → {tunnel.port}" for tunnel in belongings.tunnels]:
        listed = ", ".join(ports)
        sentences.append(
            f"The tunnel {listed} is opened again."
            if len(ports) == 1
            else f"The tunnels {listed} are opened again."
        )
    for watch in (False, True):
        folders = [sync.folder for sync in belongings.syncs if sync.watch == watch]
        if folders:
            sentences.append(_copied(folders, watch=watch))
    if folders := [share.request.folder for share in belongings.shares]:
        listed = ", ".join(folders)
        sentences.append(
            f"The folder {listed} is shared again, and empty."
            if len(folders) == 1
            else f"The folders {listed} are shared again, and empty."
        )
    return sentences


def _copied(folders: list[str], *, watch: bool) -> str:
    listed = ", ".join(folders)
    if watch:
        return (
            f"The local folder {listed} is watched and copied again."
            if len(folders) == 1
            else f"The local folders {listed} are watched and copied again."
        )
    return (
        f"The local folder {listed} is copied again."
        if len(folders) == 1
        else f"The local folders {listed} are copied again."
    )


def _not_created(record: EnvironmentRecord) -> str:
    name = record.environment.name
    return f"The environment {name} is not created again, since the TPU is not connected."

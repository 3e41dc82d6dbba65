"""What operations do, step by step. Each may be cancelled, or cut off by the end of the process,
at any line; what is done stays done and running it again goes on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

from ... import environment, ssh
from ...cloud import Node, NodeName, NodeSpec
from ...environment import StepPlan
from ...errors import Reason, TPUError
from ...links import Link
from ..models import ConnectTPU, CreateTPU, Environment, Problem
from ..models.catalog import known_type
from ..operations.progress import Progress
from ..operations.tensorboard import TensorBoardService
from ..state import State, environment_now
from ..store.records import EnvironmentRecord

#: How long the links may take to come up; a TPU that just became ready needs a while. Seconds.
LINKS_UP = 180.0
#: How long ending kernels before a delete may take; seconds.
END_KERNELS = 20.0


class Work:
    def __init__(self, state: State) -> None:
        self._state = state
        self._cloud = state.cloud

    # ---- create ----

    async def create(self, name: NodeName, wanted: CreateTPU, progress: Progress) -> None:
        """*wanted* is checked and complete."""
        assert wanted.version is not None
        progress.plan([StepPlan("create", "Making the TPU", 1)])
        progress.begin("create")
        kind = known_type(wanted.type)
        meaning = f" ({kind.meaning})" if kind else ""
        progress.log(f"Creating {name.node}: {wanted.type}{meaning} in {name.zone}")
        if kind is not None and wanted.version != kind.version:
            progress.log(
                f"{wanted.version} is not the usual image of {wanted.type}, {kind.version}: "
                "if JAX sees no chips there, that is why."
            )
        spec = NodeSpec(
            type=wanted.type,
            version=wanted.version,
            tier=wanted.tier,
            network=wanted.network,
            subnetwork=wanted.subnetwork,
            labels=wanted.labels,
            metadata=await asyncio.to_thread(self._state.links.key_metadata),
        )
        self._state.observer.request_refresh()
        node = await self._cloud.create_node(name, spec)
        self._created(node, wanted, progress)

    async def resume_create(self, name: NodeName, wanted: CreateTPU, progress: Progress) -> None:
        """Waits for a TPU that an earlier process asked for, as the poll sees it."""
        progress.plan([StepPlan("create", "Making the TPU", 1)])
        progress.begin("create")
        progress.log("The server was restarted; looking whether Google has made the TPU.")
        observer = self._state.observer
        while True:
            await observer.refresh()
            node = observer.nodes.get(name)
            if node is not None and node.state != "CREATING":
                break
            if node is None and observer.complete(name.zone):
                raise TPUError(
                    f"The server was stopped while {name.node} was created, and Google has no "
                    "such TPU now.",
                    Reason.INTERRUPTED,
                    "Create it again.",
                )
            await asyncio.sleep(2)
        if node.state != "READY":
            raise TPUError(f"{name.node} was created and is now {node.state}.", Reason.CONFLICT)
        self._created(node, wanted, progress)

    def _created(self, node: Node, wanted: CreateTPU, progress: Progress) -> None:
        progress.done("create")
        progress.log(f"{node.name.node} is {node.state}")
        self._state.observer.upsert(node)
        if wanted.connect is not None:
            self.start_connect(node.name, wanted.connect)

    async def undo_create(self, name: NodeName, progress: Progress) -> None:
        """Deletes what was made so far."""
        progress.say("Deleting what was made")
        progress.log("Cancelled: deleting what was made so far")
        try:
            await self._cloud.delete_node(name)
        except TPUError as error:
            if error.reason is not Reason.NOT_FOUND:
                raise
        self._state.observer.remove(name)

    # ---- start, stop, delete ----

    async def start(self, name: NodeName, progress: Progress) -> None:
        progress.plan([StepPlan("start", "Google starts the TPU", 1)])
        await self._change("start", self._cloud.start_node(name), progress)

    async def stop(self, name: NodeName, progress: Progress) -> None:
        progress.plan(
            [StepPlan("kernels", "End kernels", 1), StepPlan("stop", "Google stops the TPU", 9)]
        )
        await self._end_kernels(name, progress)
        self._state.connections.release(name)
        await self._change("stop", self._cloud.stop_node(name), progress)

    async def _change(self, key: str, change: Awaitable[Node], progress: Progress) -> None:
        progress.begin(key)
        self._state.observer.request_refresh()
        node = await change
        self._state.observer.upsert(node)
        progress.done(key)
        progress.log(f"{node.name.node} is {node.state}")

    async def delete(self, name: NodeName, progress: Progress) -> None:
        """Kernelspecs go last: if Google refuses the delete nothing of them is lost."""
        progress.plan(
            [
                StepPlan("kernels", "End kernels", 1),
                StepPlan("delete", "Google deletes the TPU", 9),
                StepPlan("forget", "Remove its kernels from Jupyter", 1),
            ]
        )
        await self._end_kernels(name, progress)
        progress.begin("delete")
        self._state.observer.request_refresh()
        try:
            await self._cloud.delete_node(name)
        except TPUError as error:
            if error.reason is not Reason.NOT_FOUND:
                raise
            progress.log("It was gone already")
        progress.done("delete")
        progress.begin("forget")
        self._state.forget(name)
        self._state.observer.remove(name)
        progress.done("forget")

    async def _end_kernels(self, name: NodeName, progress: Progress) -> None:
        """Asks the agent; a TPU that can't be asked is no obstacle."""
        progress.begin("kernels")
        state = self._state
        await state.warm.stop(name)
        ended = 0
        if state.environments.get(name) and self._answers(name):
            try:
                for kernel in await state.kernels.fetch(name, END_KERNELS):
                    await state.kernels.end(name, kernel.id, END_KERNELS)
                    ended += 1
                    progress.log(f"Ended kernel {kernel.id}")
            except (TimeoutError, TPUError) as error:
                progress.log(f"Its kernels could not be asked to end: {error}")
        progress.done("kernels", "done" if ended else "skipped")
        state.kernels.forget(name)

    def _answers(self, name: NodeName) -> bool:
        node = self._state.observer.nodes.get(name)
        return node is None or node.state == "READY"

    # ---- disconnect ----

    async def disconnect(self, name: NodeName, progress: Progress) -> None:
        progress.plan(
            [
                StepPlan("kernels", "End kernels", 1),
                StepPlan("forget", "Remove its kernels from Jupyter", 1),
            ]
        )
        await self._end_kernels(name, progress)
        await TensorBoardService(self._state).end(name)
        progress.begin("forget")
        self._state.disconnect(name)
        progress.done("forget")

    # ---- connect ----

    def start_connect(self, name: NodeName, wanted: ConnectTPU) -> str:
        operations = self._state.operations
        record = operations.new_record("connect", name, connect=wanted)
        operations.start(record, lambda progress: self.connect(name, wanted, progress))
        return record.operation.id

    async def connect(self, name: NodeName, wanted: ConnectTPU, progress: Progress) -> None:
        """Ends connected; or failed, with what was connected before as it was."""
        state = self._state
        steps = [
            StepPlan("key", "SSH key", 1),
            StepPlan("links", "Reach the hosts", 8),
            *environment.STEPS,
            StepPlan("kernelspec", "Add the kernel to Jupyter", 1),
        ]
        seen = state.observer.nodes.get(name)
        progress.plan(steps, hosts=len(seen.endpoints) if seen else 0, measured=True)
        progress.begin("key")
        node = await self._cloud.get_node(name)
        state.observer.upsert(node)
        if node.state != "READY":
            raise TPUError(
                f"{name.node} is {node.state}, not READY.",
                Reason.CONFLICT,
                "Start it first." if node.state == "STOPPED" else "Connect when it is READY.",
            )
        progress.plan(steps, hosts=len(node.endpoints), measured=True)
        before = state.environments.get(name, {}).get(wanted.environment)
        if before is not None and before.node_id != node.id:
            before = None  # on another TPU of the same name, which is gone
        wanted = _merged(before, wanted)
        self._note(name, node, wanted, before, None)
        failure: TPUError | None = TPUError("Connecting failed.", Reason.INTERNAL)
        try:
            made = await self._make(name, node, wanted, progress)
            failure = None
        except TPUError as error:
            failure = error
            raise
        except asyncio.CancelledError:
            failure = TPUError("Connecting was cancelled.", Reason.CANCELLED, "Connect again.")
            raise
        finally:
            # At the end of the process it stays "making", and is resumed by the next one.
            if failure is not None and not state.operations.closing:
                self._note(name, node, wanted, before, failure)
                if name not in state.wished:
                    state.connections.release(name)
        progress.begin("kernelspec")
        record = _record(node, wanted, made, before)
        state.save(name, record)
        state.register(name, record)
        state.connect(name, node)
        state.connections.acquire(name, len(node.endpoints))
        progress.done("kernelspec")
        progress.log(f"{made.display_name} is in Jupyter")
        state.kernels.wake()
        state.warm.wake()

    async def _make(
        self, name: NodeName, node: Node, wanted: ConnectTPU, progress: Progress
    ) -> Environment:
        progress.begin("key")
        key = await asyncio.to_thread(ssh.ensure_key)
        progress.log(f"SSH key: {key}")
        progress.done("key")

        progress.begin("links")
        links = self._state.connections.acquire(name, len(node.endpoints))
        await environment.gather_or_cancel([self._up(link, progress) for link in links])
        progress.done("links")

        kind = known_type(node.type)
        made = await environment.create(
            links,
            environment.EnvironmentSpec(
                name=wanted.environment,
                python=wanted.python,
                packages=tuple(wanted.packages),
                requirements=wanted.requirements or "",
            ),
            environment.ExpectedHardware(
                emulated=self._cloud.emulated,
                devices_per_host=kind.devices_per_host if kind else None,
            ),
            progress,
        )
        return Environment(
            name=wanted.environment,
            tpu=name.node,
            zone=name.zone,
            state="ready",
            python=made.python,
            jax=made.jax,
            path=made.path,
            packages=list(wanted.packages),
            devices=made.devices,
            platform=made.platform,
        )

    async def _up(self, link: Link, progress: Progress) -> None:
        await link.wait_up(timeout=LINKS_UP)
        progress.log(f"Host {link.host.worker} is reached")
        progress.host_done("links")

    def _note(
        self,
        name: NodeName,
        node: Node,
        wanted: ConnectTPU,
        before: EnvironmentRecord | None,
        error: TPUError | None,
    ) -> None:
        """Remembers that the environment is being made, or why it was not."""
        problem = Problem.of(error) if error else None
        now = environment_now(wanted.environment, name, before, problem)
        kept = before.wanted if error and before is not None else wanted
        self._state.save(name, _record(node, kept, now, before))


def _merged(before: EnvironmentRecord | None, wanted: ConnectTPU) -> ConnectTPU:
    """Connecting again keeps what was asked for earlier.

    Where that failed, a request that says something stands for itself: what was wrong must not
    stay for ever.
    """
    plain = wanted == ConnectTPU(environment=wanted.environment)
    if before is None or (before.environment.state == "failed" and not plain):
        return wanted
    earlier = before.wanted
    return ConnectTPU(
        environment=wanted.environment,
        python=wanted.python or earlier.python,
        packages=_union(earlier.packages, wanted.packages),
        requirements=wanted.requirements or earlier.requirements,
    )


def _union(first: Sequence[str], second: Sequence[str]) -> list[str]:
    return list(dict.fromkeys([*first, *second]))


def _record(
    node: Node, wanted: ConnectTPU, environment: Environment, before: EnvironmentRecord | None
) -> EnvironmentRecord:
    """What is remembered of an environment; what was decided on its warm kernel stays."""
    return EnvironmentRecord(
        node_id=node.id,
        wanted=wanted,
        environment=environment,
        hosts=len(node.endpoints),
        warm=before.warm if before is not None else None,
    )

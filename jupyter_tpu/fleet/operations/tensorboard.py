"""TensorBoard on a host, and traces of kernels in it: operations that end with an open app."""

from __future__ import annotations

import contextlib
import functools

from ...cloud import Node, NodeName
from ...environment import StepPlan, tensorboard
from ...errors import InvalidInput, TPUError
from ...links import HostName, Link, LinkState
from ..forwarding.apps import Apps
from ..forwarding.ports import check_host
from ..hosts.connections import HostConnections
from ..hosts.kernels import KernelService
from ..knowledge.finder import TPUFinder
from ..models import OpenApp, OpenTensorBoard, Operation, ProfileKernel
from ..models.requests import validated
from .progress import Progress
from .runner import OperationRunner

#: Where traces go by default; below the home.
TRACES = "~/.jupyter-tpu/traces"
#: How long the link may take to come up; seconds.
LINK_UP = 60.0
#: Seconds that one trace may take: what JAX records meanwhile stays in the kernel's memory.
LONGEST = 120.0

_OPEN = (StepPlan("start", "Start TensorBoard", 15), StepPlan("open", "Open TensorBoard", 1))


class TensorBoardService:
    """TensorBoards, as a :class:`~jupyter_tpu.fleet.api.TensorBoardAPI`; several of its operations
    may run at the same time.
    """

    def __init__(
        self,
        finder: TPUFinder,
        connections: HostConnections,
        kernels: KernelService,
        apps: Apps,
        runner: OperationRunner,
    ) -> None:
        self._finder = finder
        self._connections = connections
        self._kernels = kernels
        self._apps = apps
        self._runner = runner

    async def open(self, ref: str, request: OpenTensorBoard) -> Operation:
        """Installs what is missing, starts TensorBoard or finds it running, and opens it."""
        request = validated(request)
        node = await self._finder.find_ready(ref, "TensorBoard runs on READY TPUs.")
        _check_logdir(request.logdir)
        check_host(node, request.host)

        async def work(progress: Progress) -> None:
            progress.plan([*tensorboard.INSTALL_STEPS, *_OPEN], measured=True)
            host = HostName(node.name, request.host)
            async with self._connections.borrow(host, LINK_UP) as link:
                if not request.allow_missing:
                    await tensorboard.require_folder(link, request.logdir, progress)
                await tensorboard.install(link, progress)
                await self._open(node, link, request.logdir, progress)

        return await self._runner.start(self._runner.new_record("tensorboard", node.name), work)

    async def profile(
        self, ref: str, kernel_id: str, request: ProfileKernel | None = None
    ) -> Operation:
        """Raises INVALID for a wrong request, NOT_FOUND for an unknown kernel."""
        request = validated(request or ProfileKernel())
        _check_profile(request)
        node = await self._finder.find_ready(ref, "Kernels run on READY TPUs.")
        kernel = await self._kernels.require(node.name, kernel_id)

        async def work(progress: Progress) -> None:
            tracing = StepPlan("trace", f"Trace the kernel for {request.seconds:g} s", 10)
            progress.plan([*tensorboard.INSTALL_STEPS, tracing, *_OPEN], measured=True)
            async with self._connections.borrow(HostName(node.name, 0), LINK_UP) as link:
                # First, so that the trace does not wait for it.
                await tensorboard.install(link, progress)
                progress.begin("trace")
                logdir = await tensorboard.capture_trace(
                    link,
                    kernel.environment,
                    kernel.id,
                    request.logdir or TRACES,
                    request.seconds,
                    progress,
                )
                progress.done("trace")
                await self._open(node, link, logdir, progress)

        return await self._runner.start(self._runner.new_record("profile", node.name), work)

    async def stop(self, name: NodeName) -> None:
        """Ends the TensorBoards on the hosts of which apps are open, and on host 0, where an
        earlier server may have left some. Hosts that don't answer keep theirs.
        """
        hosts = {0}
        for app in self._apps.known():
            if app.kind == "tensorboard" and (app.tpu, app.zone) == (name.node, name.zone):
                hosts.add(app.host)
        for host in sorted(hosts):
            link = self._connections.link(HostName(name, host))
            if link.state is LinkState.UP:
                with contextlib.suppress(TPUError):
                    await tensorboard.stop(link)

    async def _open(self, node: Node, link: Link, logdir: str, progress: Progress) -> None:
        progress.begin("start")
        board = await tensorboard.start(link, logdir, progress)
        progress.done("start", "skipped" if board.reused else "done")
        progress.begin("open")
        app = await self._apps.open_on(
            node,
            OpenApp(port=board.port, host=link.host.worker, name="TensorBoard"),
            kind="tensorboard",
            logdir=board.logdir,
            on_close=functools.partial(tensorboard.stop, link, board.logdir),
        )
        progress.operation.app = app.id
        progress.done("open")
        progress.log(f"TensorBoard shows {board.logdir}")


def _check_logdir(logdir: str) -> None:
    if not logdir.strip() or not logdir.isprintable():
        raise InvalidInput(
            f"{logdir!r} is not a folder.",
            "Name the folder on the host with the logs, such as ~/runs or gs://bucket/folder.",
        )


def _check_profile(request: ProfileKernel) -> None:
    if not 0 < request.seconds <= LONGEST:
        raise InvalidInput(
            f"A trace can't take {request.seconds:g} seconds.",
            f"Choose up to {LONGEST:g} seconds; one to five are usual.",
        )
    if request.logdir:
        _check_logdir(request.logdir)
        if "://" in request.logdir:
            raise InvalidInput("A trace is written to a folder of the host.")

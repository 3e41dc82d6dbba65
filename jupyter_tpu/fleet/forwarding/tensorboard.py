"""TensorBoard on a host: operations that end with an open app."""

from __future__ import annotations

import contextlib
import functools

from ...cloud import Node, NodeName
from ...environment import StepPlan, tensorboard
from ...errors import InvalidInput, TPUError
from ...links import HostName, Link, LinkState
from ..core.core import Core
from ..core.operation_progress import OperationProgress
from ..models import OpenApp, OpenTensorBoard, Operation
from ..models.core import validated
from .apps import Apps
from .ports import check_host

#: How long the link may take to come up; seconds.
LINK_UP = 60.0

#: The steps of :meth:`TensorBoardService.show`.
SHOW_STEPS = (
    StepPlan("start", "Start TensorBoard", 15),
    StepPlan("open", "Open TensorBoard", 1),
)


class TensorBoardService:
    """TensorBoards, as a :class:`~jupyter_tpu.fleet.api.TensorBoardAPI`; several of its operations
    may run at the same time.
    """

    def __init__(self, core: Core, apps: Apps) -> None:
        self._finder = core.finder
        self._connections = core.connections
        self._apps = apps
        self._runner = core.runner

    async def open(self, ref: str, request: OpenTensorBoard) -> Operation:
        """Installs what is missing, starts TensorBoard or finds it running, and opens it."""
        request = validated(request)
        node = await self._finder.find_ready(ref)
        check_logdir(request.logdir)
        check_host(node, request.host)

        async def work(progress: OperationProgress) -> None:
            progress.plan([*tensorboard.INSTALL_STEPS, *SHOW_STEPS], measured=True)
            host = HostName(node.name, request.host)
            async with self._connections.borrow(host, LINK_UP) as link:
                if not request.allow_missing:
                    await tensorboard.require_folder(link, request.logdir, progress)
                await tensorboard.install(link, progress)
                await self.show(node, link, request.logdir, progress)

        return await self._runner.start(self._runner.new_record("tensorboard", node.name), work)

    async def stop(self, name: NodeName) -> None:
        """Ends the TensorBoards on the hosts of which apps are open, and on host 0, where an
        earlier server may have left some. Hosts that don't answer keep theirs.
        """
        hosts = {0}
        for app in self._apps.list_open():
            if app.kind == "tensorboard" and (app.tpu, app.zone) == (name.node, name.zone):
                hosts.add(app.host)
        for host in sorted(hosts):
            link = self._connections.link(HostName(name, host))
            if link.state is LinkState.UP:
                with contextlib.suppress(TPUError):
                    await tensorboard.stop(link)

    async def show(self, node: Node, link: Link, logdir: str, progress: OperationProgress) -> None:
        """Opens TensorBoard, which is installed on a host, for a folder there."""
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


def check_logdir(logdir: str) -> None:
    if not logdir.strip() or not logdir.isprintable():
        raise InvalidInput(
            f"{logdir!r} is not a folder.",
            "Name the folder on the host with the logs, such as ~/runs or gs://bucket/folder.",
        )

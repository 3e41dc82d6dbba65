"""TensorBoard on a host, and traces of kernels in it: operations that end with an open app."""

from __future__ import annotations

import contextlib
import functools

from ...cloud import Node, NodeName
from ...environment import StepPlan, tensorboard
from ...errors import Reason, TPUError
from ...links import HostName, Link, LinkState
from ..models import Kernel, OpenApp, OpenTensorBoard, ProfileKernel
from ..operations.progress import Progress
from ..state import State

#: Where traces go if nobody says another folder; below the home.
TRACES = "~/.jupyter-tpu/traces"
#: How long the link may take to come up; seconds.
LINK_UP = 60.0
#: Seconds that one trace may take: what JAX notes meanwhile stays in the kernel's memory.
LONGEST = 120.0

_OPEN = (StepPlan("start", "Start TensorBoard", 15), StepPlan("open", "Open it", 1))


def check_tensorboard(wanted: OpenTensorBoard) -> None:
    """Raises INVALID for what can't be a folder."""
    if not wanted.logdir.strip() or not wanted.logdir.isprintable():
        raise TPUError(
            f"{wanted.logdir!r} is not a folder.",
            Reason.INVALID,
            "Name the folder on the host with the logs, ~/runs say, or gs://bucket/folder.",
        )


def check_profile(wanted: ProfileKernel) -> None:
    if not 0 < wanted.seconds <= LONGEST:
        raise TPUError(
            f"A trace can't take {wanted.seconds:g} seconds.",
            Reason.INVALID,
            f"Choose something up to {LONGEST:g}; one to five seconds are usual.",
        )
    if wanted.logdir:
        check_tensorboard(OpenTensorBoard(logdir=wanted.logdir))
        if "://" in wanted.logdir:
            raise TPUError("A trace is written to a folder of the host.", Reason.INVALID)


class TensorBoardService:
    """The work of the operations."""

    def __init__(self, state: State) -> None:
        self._state = state

    async def tensorboard(self, node: Node, wanted: OpenTensorBoard, progress: Progress) -> None:
        """Installs what is missing, starts TensorBoard or finds it running, and opens it."""
        progress.plan([*tensorboard.INSTALL_STEPS, *_OPEN], measured=True)
        link = self._link(node, wanted.host)
        link.acquire()
        try:
            await link.wait_up(timeout=LINK_UP)
            await tensorboard.install(link, progress)
            await self._open(node, link, wanted.logdir, progress)
        finally:
            link.release()

    async def profile(
        self, node: Node, kernel: Kernel, wanted: ProfileKernel, progress: Progress
    ) -> None:
        """Traces a kernel while it works, and shows the trace."""
        tracing = StepPlan("trace", f"Trace the kernel for {wanted.seconds:g} s", 10)
        progress.plan([*tensorboard.INSTALL_STEPS, tracing, *_OPEN], measured=True)
        link = self._link(node, 0)
        link.acquire()
        try:
            await link.wait_up(timeout=LINK_UP)
            # First, so that the trace is of now and not of a minute later the first time.
            await tensorboard.install(link, progress)
            progress.begin("trace")
            logdir = await tensorboard.capture_trace(
                link,
                kernel.environment,
                kernel.id,
                wanted.logdir or TRACES,
                wanted.seconds,
                progress,
            )
            progress.done("trace")
            await self._open(node, link, logdir, progress)
        finally:
            link.release()

    async def end(self, name: NodeName) -> None:
        """Ends the TensorBoards on the hosts of which apps are open, and on host 0, where an
        earlier server may have left some. Hosts that don't answer keep theirs.
        """
        apps = [app for app in self._state.apps.all() if app.kind == "tensorboard"]
        here = (name.node, name.zone)
        for host in {0, *(app.host for app in apps if (app.tpu, app.zone) == here)}:
            link = self._state.links.get(HostName(name, host))
            if link.state is LinkState.UP:
                with contextlib.suppress(TPUError):
                    await tensorboard.stop(link)

    async def _open(self, node: Node, link: Link, logdir: str, progress: Progress) -> None:
        progress.begin("start")
        board = await tensorboard.start(link, logdir, progress)
        progress.done("start", "skipped" if board.reused else "done")
        progress.begin("open")
        app = await self._state.apps.open(
            node,
            OpenApp(port=board.port, host=link.host.worker, name="TensorBoard"),
            kind="tensorboard",
            logdir=board.logdir,
            on_close=functools.partial(tensorboard.stop, link, board.logdir),
        )
        progress.operation.app = app.id
        progress.done("open")
        progress.log(f"TensorBoard shows {board.logdir}")

    def _link(self, node: Node, host: int) -> Link:
        return self._state.links.get(HostName(node.name, host))

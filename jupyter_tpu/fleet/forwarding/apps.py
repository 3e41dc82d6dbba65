"""Apps: the web applications of hosts that are open, each on an origin of its own; TensorBoard.

They close with this process. A browser that still shows one then opens it again.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Literal

from ...cloud import Node, NodeName
from ...errors import InvalidInput, Reason, TPUError
from ...links import HostName, Link, LinkState
from ...progress import StepPlan
from ..core.core import Core
from ..core.host_numbers import check_host
from ..core.known_operations import OperationProgress
from ..models import App, AppVisit, OpenApp, OpenTensorBoard, Operation, Problem, VisitApp
from ..models.core import timestamp, validated
from . import tensorboard
from .tunnels import COUNT_EVERY, ForwardedPort, check_host_port

if TYPE_CHECKING:
    from ...apps import AppServer, Site

#: What to do on the host when an app is closed.
OnClose = Callable[[], Awaitable[None]]


class Apps:
    """The apps of one fleet, as an :class:`~jupyter_tpu.fleet.api.AppsAPI`. On the core loop."""

    def __init__(self, core: Core) -> None:
        self._links = core.links
        self._finder = core.finder
        self._changed = core.changes.marker("app")
        self._server: AppServer | None = None
        self._open: dict[str, _ActiveApp] = {}
        self._closing: list[_ActiveApp] = []  # to be closed by the loop
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        #: Where the server shows an app beneath its own address; "" for nowhere.
        self.path_under_server: Callable[[App], str] = lambda _: ""
        core.connected.ends_with_tpu(self.forget, when_disconnected=True)
        core.changes.register("app", self.find)
        core.ending.push_async_callback(self.shut_down)

    # ---- asking ----

    async def list(self) -> Sequence[App]:
        return self.list_open()

    def list_open(self) -> Sequence[App]:
        """The oldest first."""
        return [active_app.describe() for active_app in self._open.values()]

    def find(self, id: str) -> App | None:
        active_app = self._open.get(id)
        return active_app.describe() if active_app is not None else None

    async def visit(self, id: str, request: VisitApp | None = None) -> AppVisit:
        """Raises NOT_FOUND, INVALID for what can't frame it."""
        from ...apps.headers import ORIGIN

        request = request or VisitApp()
        if request.framed_by and not ORIGIN.fullmatch(request.framed_by):
            raise InvalidInput(
                f"{request.framed_by!r} is not an origin.",
                "Give the scheme, name and port of the page that frames the app, such as "
                "http://localhost:8888.",
            )
        active_app = self._get(id)
        return AppVisit(
            url=active_app.site.visit(active_app.app.path, request.framed_by),
            probe=active_app.site.probe(),
            storage_check=active_app.site.storage_check(),
            server_path=self.path_under_server(active_app.app),
        )

    # ---- changing ----

    async def open(self, ref: str, request: OpenApp) -> App:
        request = validated(request)
        return await self.open_on(await self._ready(ref), request)

    async def open_on(
        self,
        node: Node,
        request: OpenApp,
        *,
        kind: Literal["port", "tensorboard", "ray"] = "port",
        logdir: str = "",
        on_close: OnClose | None = None,
        headers: Sequence[tuple[str, str]] = (),
    ) -> App:
        """As :meth:`open`.

        headers: see `Upstream`. logdir, on_close: of a TensorBoard; what ends it.
        """
        check_host_port(node, request.port, request.host)
        if not request.path.startswith("/") or not request.path.isprintable():
            raise InvalidInput(f"{request.path!r} is not a path.", "Paths begin with a slash.")
        for active_app in self._open.values():
            app = active_app.app
            same = (active_app.name, app.host, app.port, app.path, app.allow_external)
            if same == (
                node.name,
                request.host,
                request.port,
                request.path,
                request.allow_external,
            ):
                return active_app.describe()
        # aiohttp, which is slow to import, is not needed before the first app.
        from ...apps import AppServer, Upstream

        if self._server is None:
            self._server = AppServer()
        link = self._links.get(HostName(node.name, request.host))
        upstream = Upstream(link.open_bulk, request.port, [*headers])
        id = uuid.uuid4().hex[:8]
        app = App(
            id=id,
            tpu=node.name.node,
            zone=node.name.zone,
            host=request.host,
            port=request.port,
            path=request.path,
            name=request.name or f"Port {request.port}",
            kind=kind,
            logdir=logdir,
            allow_external=request.allow_external,
            state="open",
            created=timestamp("seconds"),
        )
        try:
            where = f"port {request.port} of {link.host}"
            label = request.name or node.name.node
            site = await self._server.add(
                upstream, where, label, allow_external=request.allow_external
            )
        except BaseException:
            await upstream.close()
            raise
        self._wake.set()
        forwarded = ForwardedPort(link, upstream, lambda: self._changed(id))
        self._open[id] = _ActiveApp(node.name, app, site, forwarded, on_close)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="apps")
        self._changed(id)
        return self._open[id].describe()

    async def site(self, ref: str, host: int, port: int, begin: bool) -> Site:
        """The site of a port, for a face that shows it under an address of its own.

        A port that is not open is opened only with *begin*, otherwise NOT_FOUND: a page that was
        left open must not open again what was closed.
        """
        node = await self._ready(ref)
        place = (node.name, host, port)
        active_apps = [e for e in self._open.values() if (e.name, e.app.host, e.app.port) == place]
        if not active_apps:
            if not begin:
                raise TPUError(
                    f"Port {port} of {node.name.node} is closed.",
                    Reason.NOT_FOUND,
                    "Open its page again.",
                )
            app = await self.open_on(node, OpenApp(port=port, host=host))
            return self._open[app.id].site
        return active_apps[0].site

    async def close(self, id: str) -> None:
        active_app = self._get(id)
        reached = active_app.describe().state == "open"
        await self._close(active_app)
        if active_app.on_close is not None and reached:
            await active_app.on_close()

    def forget(self, name: NodeName) -> None:
        """The TPU is disconnected or gone: its apps close in a moment."""
        self._closing += [app for app in self._open.values() if app.name == name]
        self._wake.set()

    async def shut_down(self) -> None:
        """Ends them here; what runs on hosts continues there."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        for active_app in tuple(self._open.values()):
            await self._close(active_app)
        if self._server is not None:
            await self._server.close()

    async def _run(self) -> None:
        """Publishes how much was transferred, and closes the apps of TPUs that are gone."""
        while True:
            self._wake.clear()
            closing, self._closing = self._closing, []
            for active_app in closing:
                await self._close(active_app)
            for id, active_app in self._open.items():
                if active_app.forwarded.had_traffic():
                    self._changed(id)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(COUNT_EVERY if self._open else None):
                    await self._wake.wait()

    # ---- inside ----

    async def _ready(self, ref: str) -> Node:
        return await self._finder.find_ready(ref)

    def _get(self, id: str) -> _ActiveApp:
        active_app = self._open.get(id)
        if active_app is None:
            raise TPUError(
                f"The app {id} does not exist.",
                Reason.NOT_FOUND,
                "Apps end with the server that opened them: open it again.",
            )
        return active_app

    async def _close(self, active: _ActiveApp) -> None:
        if self._open.pop(active.app.id, None) is None:
            return
        assert self._server is not None
        self._server.remove(active.site)
        await active.forwarded.close()
        self._changed(active.app.id)


class _ActiveApp:
    """One open app: a forwarded port, and a site that leads over it."""

    def __init__(
        self,
        name: NodeName,
        app: App,
        site: Site,
        forwarded: ForwardedPort,
        on_close: OnClose | None,
    ) -> None:
        self.name = name
        self.app = app
        self.site = site
        self.forwarded = forwarded
        self.on_close = on_close

    def describe(self) -> App:
        """The app as it is now."""
        app, problem = self.app, self.forwarded.problem
        app.state = self.forwarded.state
        app.problem = Problem.of(problem) if problem is not None else None
        app.sent, app.received = self.site.upstream.sent, self.site.upstream.received
        return app


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
            OpenApp(port=board.port, host=link.host.number, name="TensorBoard"),
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

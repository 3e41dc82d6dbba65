"""The fleet that a command uses: a running server's, or one in this process.

A running server of this user is used if it has the extension and works on the same cloud; it
keeps the desired state, and its operations continue after the command has ended.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import Reason, TPUError

if TYPE_CHECKING:
    from ..cloud import Target
    from ..fleet.api import FleetAPI
    from ..fleet.client import FleetClient
    from ..fleet.models import TPU, Catalog, TPUList
    from ..fleet.servers import Server

T = TypeVar("T")

#: Seconds in which a server must say which cloud it works on. Its first answer takes some: it loads
#: the fleet. One that hangs is not waited for.
LOOK_LIMIT = 20.0
#: Seconds for a list of names while someone types.
NAMES_LIMIT = 3.0


class FleetSession:
    """A fleet, and how to call it from this thread."""

    def __init__(self, fleet: FleetAPI, server: Server | None) -> None:
        self.fleet = fleet
        #: The server whose fleet it is; None: it is in this process.
        self.server = server

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Runs *coroutine* on the core's thread and waits for it here."""
        from ..links import core_thread

        return core_thread().wait(coroutine)

    def tpus(self) -> TPUList:
        """All TPUs, as Google lists them now."""
        from ..fleet.models import ListQuery

        return self.call(self.fleet.tpus(ListQuery(fresh=True)))


def tpu_ref(tpu: TPU) -> str:
    """What names exactly this TPU."""
    return f"{tpu.zone}~{tpu.name}"


def client_of(server: Server, *, agent: bool | None = None) -> FleetClient:
    """Raises PERMISSION for a server that requires a password: there is no token to send.

    agent: whether it acts as a coding agent; None: as the environment says.
    """
    from ..fleet.client import FleetClient

    if server.password:
        raise TPUError(
            f"The Jupyter server at {server.url} requires a password.",
            Reason.PERMISSION,
            "Start it with a token (the default) to use it from the command line.",
        )
    from ..agent_token import acts_as_agent, agent_token

    agent = acts_as_agent() if agent is None else agent
    token = agent_token() if agent else server.token
    return FleetClient(server.url, token, socket=server.socket, certificate=server.certificate)


def current_target() -> Target:
    """The cloud that the environment and the command's --project name."""
    from ..cloud import Target

    return Target.from_environment(project=chosen_project())


def chosen_project() -> str | None:
    """What the command's --project says."""
    import click

    context = click.get_current_context(silent=True)
    return context.meta.get("project") if context is not None else None


@contextlib.contextmanager
def open_session() -> Iterator[FleetSession]:
    """The fleet to use, closed at the end."""
    from ..agent_token import acts_as_agent
    from ..links import core_thread

    target = current_target()
    core = core_thread()
    others: list[Catalog] = []
    running_server = core.wait(find_server(target, others))
    if running_server is None and others and chosen_project():
        print(
            f"Your Jupyter server works on the project {others[0].project or '(none)'}. "
            f"This command works on {target.project}, without the server.",
            file=sys.stderr,
            flush=True,
        )
    if running_server is not None:
        server, fleet = running_server
        session = FleetSession(fleet, server)
    elif acts_as_agent():
        raise TPUError(
            "A coding agent needs a running Jupyter server, which keeps its budget.",
            Reason.CONFLICT,
            "Ask a person to start `jupyter lab` for this project.",
        )
    else:
        session = FleetSession(core.wait(_own_fleet(target)), None)
    try:
        yield session
    finally:
        core.wait(session.fleet.close())


def fleet_call(ask: Callable[[FleetAPI], Coroutine[Any, Any, T]]) -> T:
    """What the fleet answers to one question."""
    with open_session() as session:
        return session.call(ask(session.fleet))


async def _own_fleet(target: Target) -> FleetAPI:
    from ..fleet import Fleet
    from ..kernels import KernelSpecs
    from ..links import default_links

    return await Fleet.open(default_links(target), KernelSpecs(), supervise=False)


async def find_server(
    target: Target,
    others: list[Catalog],
    usable: Callable[[Server], bool] = lambda _: True,
    *,
    agent: bool | None = None,
) -> tuple[Server, FleetClient] | None:
    """The newest *usable* server that works on *target*, with its client; adds to *others* what
    the other servers work on.
    """
    from ..fleet.client import UntrustedServer
    from ..fleet.servers import running_servers
    from .printing import note

    for server in running_servers():
        if server.password or not usable(server):
            continue
        client = client_of(server, agent=agent)
        try:
            catalog = await catalog_of(client)
        except UntrustedServer as error:
            note(f"{error.message} It is not used. {error.hint}")
            catalog = None
        if catalog is not None:
            if same_cloud(target, catalog):
                return server, client
            others.append(catalog)
        await client.close()
    return None


async def catalog_of(client: FleetClient) -> Catalog | None:
    """The server's catalog; None if it has no extension, or does not answer in time. Raises
    `UntrustedServer`.
    """
    import asyncio

    from ..fleet.client import UntrustedServer

    try:
        async with asyncio.timeout(LOOK_LIMIT):
            return await client.catalog()
    except UntrustedServer:
        raise
    except (TimeoutError, TPUError):
        return None


def same_cloud(target: Target, catalog: Catalog) -> bool:
    """Whether a server with that catalog works on what this process's environment names.

    An environment that names neither an emulator nor a project accepts any server.
    """
    if target.emulator:
        from ..cloud.target import read_emulator

        try:
            cloud = f"emulator:{read_emulator(target.emulator).id}"
        except TPUError:
            return False  # the fleet in this process raises it again
        return catalog.cloud == cloud and target.project in (None, catalog.project)
    if not target.project:
        return True
    return not catalog.emulated and catalog.project == target.project


def tpu_names() -> list[str]:
    """The names of the project's TPUs, for completion; those that could be learned in time."""
    from ..kernels import KernelSpecs
    from ..links import core_thread

    names = {spec.place.tpu for spec in KernelSpecs().list()}
    with contextlib.suppress(TPUError, TimeoutError), open_session() as session:
        tpu_list = core_thread().wait(session.fleet.tpus(), NAMES_LIMIT)
        names |= {tpu.name for tpu in tpu_list.tpus}
    return sorted(names)

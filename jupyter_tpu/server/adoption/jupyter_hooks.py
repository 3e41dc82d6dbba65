"""What a server with stored kernels does in other ways than Jupyter Server's own.

Websocket: a kernel's messages come from the journal instead of the ports, which are still used for
messages of clients and for the relay's own. What a client gets of the journal, and when:
``client_feed.py``.

Lists of kernels and sessions: 503 while they are incomplete. JupyterLab takes a kernel for dead if
it is not in the list, or if the answer is 403, 404 or 500. After a 503 it tries again.

Sessions: changes of their table are followed. The session manager may be of any class, so its
methods are not replaced. SQLite reports changes by temporary triggers, which exist as long as the
connection.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from jupyter_server.base.handlers import APIHandler
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection
from jupyter_server.services.sessions.sessionmanager import SessionManager
from jupyter_server.utils import url_path_join
from tornado import web
from tornado.routing import Matcher, Rule

if TYPE_CHECKING:
    from .kernel_folder import KernelRecord, SessionRow
    from .persisted_kernel import PersistedKernel


def journal_websocket(
    base: type, persisted_kernel_of: Callable[[Any], PersistedKernel | None]
) -> type:
    """A subclass of the server's websocket class; other kernels get *base* itself."""

    class JournalWebsocketConnection(base):
        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            if persisted_kernel_of(kwargs.get("parent")) is None:
                return base(*args, **kwargs)
            return super().__new__(cls, *args, **kwargs)

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            from .client_feed import ClientFeed, relay_topic

            super().__init__(*args, **kwargs)
            kernel = persisted_kernel_of(kwargs.get("parent"))
            assert kernel is not None
            # The window limits it. The server's own limits would drop messages.
            self.limit_rate = False
            self._own_topic = relay_topic(self.kernel_id)
            self._feed = ClientFeed(self, kernel, super().handle_outgoing_message)

        def connect(self) -> Any:
            connected = super().connect()
            if connected is not None:
                connected.add_done_callback(lambda _: self._feed.start())
            return connected

        def disconnect(self) -> None:
            self._feed.stop()
            super().disconnect()
            kernels = self.multi_kernel_manager
            if self.kernel_id in kernels and self.kernel_id in kernels._kernel_buffers:
                # The journal has all messages. The server's buffer would grow without limit.
                kernels.stop_buffering(self.kernel_id)

        def handle_incoming_message(self, incoming_msg: Any) -> None:
            if not self._feed.handles(incoming_msg):
                super().handle_incoming_message(incoming_msg)

        def handle_outgoing_message(self, stream: Any, outgoing_msg: list[Any]) -> None:
            """Passes on only the relay's own messages. The journal has the kernel's."""
            if getattr(stream, "channel", stream) == "iopub":
                # Messages from before the subscription was narrowed may be the kernel's.
                own = bytes(outgoing_msg[0]).startswith(self._own_topic)
            else:
                own = any(b'"kernel_info_reply"' in bytes(part) for part in outgoing_msg)
            if own:
                super().handle_outgoing_message(stream, outgoing_msg)

    return JournalWebsocketConnection


def use_journal(
    serverapp: Any, persisted_kernel_of: Callable[[Any], PersistedKernel | None]
) -> None:
    """Lets the server's websockets send the journal. Another extension's own way to its clients
    stays: the ports that it uses are complete.
    """
    name = "kernel_websocket_connection_class"
    settings = serverapp.web_app.settings
    if issubclass(settings[name], ZMQChannelsWebsocketConnection):
        settings[name] = journal_websocket(settings[name], persisted_kernel_of)
    else:
        serverapp.log.warning(
            "Kernels on TPUs are connected to pages by %s. Output may be lost when such a "
            "connection breaks.",
            settings[name].__module__,
        )


class _UnavailableHandler(APIHandler):
    @web.authenticated
    async def get(self, *_: str) -> None:
        raise web.HTTPError(503, "The server is starting or stopping.")

    post = put = patch = delete = head = get


class _ClosedMatcher(Matcher):
    def __init__(self, closed: Callable[[], bool], base_url: str) -> None:
        self._closed = closed
        path = url_path_join(base_url, "/api/")
        self._path = re.compile(re.escape(path) + r"(kernels|sessions)(/|$)")

    def match(self, request: Any) -> dict[str, Any] | None:
        return {} if self._closed() and self._path.match(request.path) else None


def answer_503_while(application: Any, closed: Callable[[], bool]) -> None:
    """Makes *application* answer 503 on these routes while *closed* returns True."""
    matcher = _ClosedMatcher(closed, application.settings["base_url"])
    application.default_router.rules.insert(0, Rule(matcher, _UnavailableHandler))


async def wait_started(kernels: Any, kernel_id: str) -> None:
    """Waits until a kernel is started: with `use_pending_kernels`, `start_kernel` returns before.

    Raises what its start has raised.
    """
    start = getattr(kernels, "_pending_kernel_tasks", {}).get(kernel_id)
    if start is not None:
        await start
    ready = kernels.get_kernel(kernel_id).ready
    await (ready if isinstance(ready, asyncio.Future) else asyncio.wrap_future(ready))


def creates_sessions(manager: Any) -> bool:
    """Whether *manager* has its own way to create a session, which does more than to store it."""
    return type(manager).create_session is not SessionManager.create_session


async def restore_session(manager: Any, row: SessionRow, record: KernelRecord) -> None:
    """Restores a session of an adopted kernel under its id; of a manager that creates sessions in
    its own way, under another one.
    """
    if creates_sessions(manager):
        await manager.create_session(row.path, row.name, row.type, record.kernel_name, record.id)
    else:
        await manager.save_session(
            row.id, path=row.path, name=row.name, type=row.type, kernel_id=record.id
        )


_TRIGGERS = """
CREATE TEMP TRIGGER jupyter_tpu_insert AFTER INSERT ON session BEGIN
  SELECT jupyter_tpu_set(NEW.kernel_id, NEW.session_id, NEW.path, NEW.name, NEW.type);
END;
CREATE TEMP TRIGGER jupyter_tpu_update AFTER UPDATE ON session BEGIN
  SELECT jupyter_tpu_set(NEW.kernel_id, NEW.session_id, NEW.path, NEW.name, NEW.type);
END;
CREATE TEMP TRIGGER jupyter_tpu_delete AFTER DELETE ON session BEGIN
  SELECT jupyter_tpu_drop(OLD.session_id);
END;
"""


def follow_sessions(
    manager: Any, on_set: Callable[..., None], on_drop: Callable[[str], None]
) -> None:
    """Calls *on_set* with kernel id, session id, path, name and type, and *on_drop* with the id.

    A manager without such a table, such as a gateway's, has no kernels of ours.
    """
    if not hasattr(manager, "cursor") or not hasattr(manager, "connection"):
        return
    cursor = manager.cursor  # creates the table
    manager.connection.create_function("jupyter_tpu_set", 5, on_set)
    manager.connection.create_function("jupyter_tpu_drop", 1, on_drop)
    cursor.executescript(_TRIGGERS)

"""Connects the server to its stored kernels: when it starts, while it runs, and when it stops.

jupyter_server is extended in four places, all before the first request: the websocket class in its
settings, TEMP triggers on its table of sessions, a rule before its routes that answers 503 while
its lists are incomplete, and provisioners, which use ``kernels.persistence.current``.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import zmq

from ...errors import Reason, TPUError
from ...kernels import persistence
from ...paths import data_dir

if TYPE_CHECKING:
    from .kernel_folder import KernelFolder, KernelRecord, SessionRow
    from .persisted_kernel import PersistedKernel

OnLost = Callable[[str, dict[str, str], str, TPUError], None]

#: Seconds in which the kernels are detached when the server stops.
DETACH_TIMEOUT = 5.0
#: Seconds for which the port waits for the adoption of kernels.
BEFORE_PORT = 5.0
#: Seconds for which the lists wait for hosts to report recent kernels whose record is damaged.
REPORT_TIMEOUT = 20.0
#: Seconds between checks of an adopted kernel whose state is unknown.
STATE_POLL = 0.5
UNKNOWN_STATES = "unknown", "starting"
#: How the topics of messages about a kernel's state begin.
STATES = b"kernel.", b"status"


class Adoption:
    """The kernels of one server that outlive it; implements ``kernels.persistence.KernelStore``.

    Parameters
    ----------
    serverapp: the server.
    on_lost: called on the server's loop for a kernel that ended though no one here asked for it:
        with its id, its location (``project``, ``zone``, ``tpu`` and ``environment``), its
        notebook's path, and the reason.
    """

    def __init__(self, serverapp: Any, on_lost: OnLost) -> None:
        self._app = serverapp
        self._on_lost = on_lost
        self._log = serverapp.log
        self._root = os.path.realpath(serverapp.root_dir)
        self._kernels = serverapp.kernel_manager
        self._persisted: dict[str, PersistedKernel] = {}
        self._provisioners: dict[str, Any] = {}
        self._adoptable: dict[str, PersistedKernel] = {}  # not adopted yet
        # Kernels whose record is damaged. They are adopted when their host reports them.
        self._damaged: dict[str, KernelFolder] = {}
        self._unreported: set[str] = set()  # of them, those that the lists wait for
        self._watches: dict[str, asyncio.Task[None]] = {}
        self._loop: asyncio.AbstractEventLoop = serverapp.io_loop.asyncio_loop
        self._adopting: asyncio.Task[None] | None = None
        self._stopping = False
        self._stopped = False

    @property
    def closed(self) -> bool:
        """Whether the lists of kernels are incomplete, before or after adoption."""
        return self._stopped or self._adopting is not None or bool(self._unreported)

    # ---- the server's start

    def start(self) -> None:
        """Adopts kernels of earlier servers before this one listens. Needs no network."""
        from .jupyter_hooks import answer_503_while, follow_sessions, use_journal

        persistence.current = self
        use_journal(self._app, self._persisted_kernel)
        follow_sessions(self._app.session_manager, self._set_session, self._drop_session)
        answer_503_while(self._app.web_app, lambda: self.closed)
        if not self._has_kernels():
            return
        # Requests for its lists wait for it.
        self._adopting = self._loop.create_task(self._adopt(), name="adoption of kernels")
        if not self._loop.is_running():
            # So that they need not wait. The port waits only for a limited time.
            self._loop.run_until_complete(asyncio.wait([self._adopting], timeout=BEFORE_PORT))

    def _has_kernels(self) -> bool:
        folder = data_dir() / "kernels"
        return folder.is_dir() and any(folder.iterdir())

    async def _adopt(self) -> None:
        from .kernel_folder import KernelFolder

        try:
            for folder, record in await asyncio.to_thread(KernelFolder.find_unowned, self._root):
                if self._stopping:
                    folder.release()
                    continue
                if record is None:
                    self._damaged[folder.path.name] = folder
                    if folder.is_recent():
                        self._unreported.add(folder.path.name)
                    continue
                try:
                    await self._adopt_one(folder, record)
                except Exception:  # whatever is wrong with one kernel, the others are adopted
                    self._log.exception("Kernel %s is not adopted", record.id)
        finally:
            self._adopting = None
            # An open tab would take a kernel for dead that is not in the lists.
            self._loop.call_later(REPORT_TIMEOUT, self._unreported.clear)

    async def _adopt_one(self, folder: KernelFolder, record: KernelRecord) -> None:
        from jupyter_client.kernelspec import NoSuchKernel

        from .jupyter_hooks import creates_sessions, restore_session, wait_started

        environment = dict(os.environ)
        if notebook := self._notebook(record):
            environment["JPY_SESSION_NAME"] = notebook
        sessions = record.sessions
        try:
            # First, because a failing start would log a traceback.
            self._app.kernel_spec_manager.get_kernel_spec(record.kernel_name)
            # In a thread, because reading its journal takes a second for 100 MB.
            self._adoptable[record.id] = await asyncio.to_thread(
                self._persisted_kernel_in, folder, record, adopting=True
            )
            from ...kernels.requested import named_folder

            named_folder.set(record.cwd or "" if record.folder_named else "")
            await self._kernels.start_kernel(
                kernel_id=record.id,
                kernel_name=record.kernel_name,
                env=environment,
                cwd=record.cwd or os.path.dirname(notebook) or self._app.root_dir,
            )
            await wait_started(self._kernels, record.id)
        except NoSuchKernel:
            self._log.warning(
                "Kernel %s (%s) is not adopted: there is no kernelspec %s. Connect its TPU again "
                "and restart the server.",
                record.id,
                self._notebook(record) or "no document",
                record.kernel_name,
            )
            folder.release_unusable()
            return
        except BaseException as error:
            persisted = self._persisted.get(record.id) or self._adoptable.get(record.id)
            if persisted is not None:
                persisted.release()
            folder.release()
            if record.id in self._kernels:  # with `use_pending_kernels`
                self._kernels.remove_kernel(record.id)
            if not isinstance(error, (TPUError, OSError)):
                raise
            self._log.warning("Kernel %s is not adopted: %s", record.id, error)
            return
        finally:
            self._adoptable.pop(record.id, None)
        kernel = self._kernels.get_kernel(record.id)
        persisted = self._persisted[record.id]
        kernel.execution_state = persisted.state or "unknown"  # until its link is up
        if not persisted.running:  # a kernel that may be busy must not be culled
            kernel.last_activity = _parse_time(persisted.last_activity) or kernel.last_activity
        for row in list(sessions):
            if creates_sessions(self._app.session_manager):
                persisted.drop_session(row.id)  # it gets another id
            await restore_session(self._app.session_manager, row, record)
        self._watches[record.id] = self._loop.create_task(self._watch_state(record.id))
        self._log.info("Kernel %s is adopted", record.id)

    async def take_over(self, kernel_id: str, kernel_name: str, key: str, notebook: str) -> None:
        """Takes a kernel over from another client, with its notebook if this server has it.

        Raises EXISTS if this server has the kernel, CONFLICT if another server of this user has it.
        """
        from .kernel_folder import KernelFolder, KernelRecord

        if kernel_id in self._kernels:
            raise TPUError("This Jupyter server already has this kernel.", Reason.EXISTS)
        try:
            folder = self._damaged.pop(kernel_id, None) or KernelFolder.create(kernel_id)
        except FileExistsError:
            raise TPUError(
                "Another Jupyter server of yours has this kernel.",
                Reason.CONFLICT,
                "Stop that server first. The kernel continues and can then be taken over.",
            ) from None
        record = KernelRecord(
            id=kernel_id,
            kernel_name=kernel_name,
            root_dir=self._root,
            key=key,
            secret=os.urandom(24).hex(),
            steal=True,
            sessions=self._sessions(notebook),
        )
        folder.write(record)
        try:
            await self._adopt_one(folder, record)
        finally:
            self._unreported.discard(kernel_id)
        if kernel_id not in self._kernels:
            raise TPUError("The kernel could not be taken over.", Reason.INTERNAL, "See the log.")

    def is_damaged(self, kernel_id: str) -> bool:
        """Whether it is a kernel of this machine whose record is damaged. On any thread.

        `take_over` adopts it with what is left: its journal.
        """
        return kernel_id in self._damaged

    def _sessions(self, notebook: str) -> list[SessionRow]:
        """A session for the notebook, if it exists under its path or in the root folder."""
        from .kernel_folder import SessionRow

        root = self._app.root_dir
        for path in (os.path.relpath(notebook or "/", root), os.path.basename(notebook)):
            if path and not path.startswith("..") and os.path.isfile(os.path.join(root, path)):
                name = os.path.basename(path)
                return [SessionRow(str(uuid.uuid4()), path.replace(os.sep, "/"), name, "notebook")]
        return []

    def _notebook(self, record: KernelRecord) -> str:
        """The path of the kernel's document; "" if there is none."""
        path = record.sessions[0].path if record.sessions else None
        return os.path.join(self._app.root_dir, path) if path else ""

    async def _watch_state(self, kernel_id: str) -> None:
        """Updates an adopted kernel until its state is known.

        A kernel that may be busy must not be culled as idle meanwhile. The messages that its host
        stored may begin with an old state.
        """
        persisted = self._persisted[kernel_id]
        while True:
            await asyncio.sleep(STATE_POLL)
            if kernel_id not in self._kernels:
                return
            kernel = self._kernels.get_kernel(kernel_id)
            if kernel.execution_state not in UNKNOWN_STATES:
                if not persisted.running:  # the relay's own messages are not activity
                    kernel.last_activity = (
                        _parse_time(persisted.last_activity) or kernel.last_activity
                    )
                return
            if persisted.running and not persisted.state:
                kernel.last_activity = datetime.now(kernel.last_activity.tzinfo)
            self._update_state(kernel_id, persisted.state, "")

    # ---- while it runs

    def persist(self, provisioner: Any) -> PersistedKernel | None:
        from .kernel_folder import KernelFolder, KernelRecord

        manager = provisioner.parent
        kernel_id = str(provisioner.kernel_id)
        if self._stopped or manager.parent is not self._kernels:
            return None
        persisted = self._adoptable.get(kernel_id)
        if persisted is None:
            record = KernelRecord(
                id=kernel_id,
                kernel_name=manager.kernel_name,
                root_dir=self._root,
                key="",
                secret=os.urandom(24).hex(),
                cwd=provisioner.notebook_folder,
                folder_named=provisioner.folder_is_named,
            )
            folder = KernelFolder.create(kernel_id)
            persisted = self._persisted_kernel_in(folder, record, adopting=False)
        self._persisted[kernel_id] = persisted
        self._provisioners[kernel_id] = provisioner
        return persisted

    def _persisted_kernel_in(
        self, folder: KernelFolder, record: KernelRecord, *, adopting: bool
    ) -> PersistedKernel:
        from .persisted_kernel import PersistedKernel

        def lost(record: KernelRecord, problem: TPUError) -> None:
            provisioner = self._provisioners[record.id]
            self._loop.call_soon_threadsafe(self._report_lost, provisioner, record, problem)

        return PersistedKernel(
            folder,
            record,
            adopting=adopting,
            on_state=lambda state, activity: self._on_state(record.id, state, activity),
            on_output=lambda: self._on_output(record.id),
            on_lost=lost,
            on_gone=self._on_discarded,
        )

    def _persisted_kernel(self, manager: Any) -> PersistedKernel | None:
        return self._persisted.get(getattr(manager, "kernel_id", None) or "")

    def _on_discarded(self, kernel_id: str) -> None:
        self._persisted.pop(kernel_id, None)
        self._provisioners.pop(kernel_id, None)

    def _report_lost(self, provisioner: Any, record: KernelRecord, problem: TPUError) -> None:
        notebook = self._notebook(record)
        named = f" ({notebook})" if notebook else ""
        self._log.warning("Kernel %s%s is dead. %s", record.id, named, problem)
        self._on_lost(record.id, _kernel_location(provisioner), notebook, problem)

    def report_refused(self) -> None:
        self._forget_failed_starts()  # earlier ones

    def _on_state(self, kernel_id: str, state: str, activity: str) -> None:
        """Called on the core thread."""
        self._loop.call_soon_threadsafe(self._update_state, kernel_id, state, activity)

    def _on_output(self, kernel_id: str) -> None:
        """Called on the core thread, now and then while the kernel publishes something."""
        self._loop.call_soon_threadsafe(self._note_output, kernel_id)

    def _note_output(self, kernel_id: str) -> None:
        """The server's watcher of a kernel's activity gets no output: it would read and check all
        of it, as the websockets do. It is told that there is some.
        """
        if kernel_id not in self._kernels:
            return
        kernel = self._kernels.get_kernel(kernel_id)
        if getattr(kernel, "execution_state", "") == "busy":  # as the watcher does
            kernel.last_activity = datetime.now(kernel.last_activity.tzinfo)
        stream = getattr(kernel, "_activity_stream", None)
        if stream is not None and not stream.closed():
            for topic in STATES:
                stream.setsockopt(zmq.SUBSCRIBE, topic)
            stream.setsockopt(zmq.UNSUBSCRIBE, b"")

    def _update_state(self, kernel_id: str, state: str, activity: str) -> None:
        if kernel_id in self._kernels and kernel_id in self._watches:
            kernel = self._kernels.get_kernel(kernel_id)
            if kernel.execution_state in UNKNOWN_STATES and state:
                kernel.execution_state = state
                kernel.last_activity = _parse_time(activity) or kernel.last_activity

    def _set_session(self, kernel_id: str, *row: str | None) -> None:
        from .kernel_folder import SessionRow

        session = SessionRow(str(row[0]), *row[1:])
        for other, persisted in self._persisted.items():
            if other != kernel_id:
                persisted.drop_session(session.id)
        kernel, provisioner = self._persisted.get(kernel_id), self._provisioners.get(kernel_id)
        if kernel is not None and kernel.set_session(session) and provisioner is not None:
            provisioner.rename(self._notebook(kernel.record))

    def _drop_session(self, session_id: str) -> None:
        for persisted in list(self._persisted.values()):
            persisted.drop_session(session_id)

    # ---- its stop

    async def stop(self) -> None:
        """Detaches from the kernels. Later attempts of the server to end them have no effect."""
        self._stopping = True
        if self._adopting is not None:
            # Not cancelled: the kernel manager would wait forever to end a kernel whose start was.
            await asyncio.wait([self._adopting], timeout=DETACH_TIMEOUT)
        self._stopped = True
        if persistence.current is self:
            persistence.current = None
        tasks = [task for task in (self._adopting, *self._watches.values()) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=DETACH_TIMEOUT)
        self._forget_failed_starts()
        for folder in self._damaged.values():
            folder.release()
        leaving = []
        for kernel_id in list(self._persisted):
            if kernel_id in self._kernels:
                kernel = self._kernels.get_kernel(kernel_id)
                kernel.stop_restarter()  # for which the kernel would be dead
                leaving.append(asyncio.ensure_future(self._provisioners[kernel_id].detach()))
        if leaving:
            await asyncio.wait(leaving, timeout=DETACH_TIMEOUT)

    def _forget_failed_starts(self) -> None:
        """Lets the server end: jupyter_client keeps a failed start as pending, and then raises when
        the server shuts all kernels down, which keeps it running forever.
        """
        pending = getattr(self._kernels, "_pending_kernels", {})
        for kernel_id, start in list(pending.items()):
            if start.done() and kernel_id not in self._kernels:
                del pending[kernel_id]


def _kernel_location(provisioner: Any) -> dict[str, str]:
    return {name: getattr(provisioner, name) for name in ("project", "zone", "tpu", "environment")}


def _parse_time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        return None

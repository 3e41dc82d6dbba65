"""Sessions on this computer: copied from the disks of hosts over their links, and to hosts again.

Kernels save on their host's disk. A Jupyter server copies what is new of it, since what was saved
never changes: each array and each group of variables has a name of its own. A session is here when
its manifest is, which is written last. Nothing of it is unpickled here.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import structs, to_builtins

from ...cloud import NodeName
from ...errors import Reason, TPUError
from ...files.copy.copying import download
from ...files.copy.spreading import upload_to_hosts
from ...links import HostName
from ...local_files import try_lock, write_atomically
from ...on_host.agent.session import storage
from ...paths import data_dir, private_dir
from ...progress import StepPlan
from ...wording import size_text
from ..core.core import Core
from ..core.known_operations import OperationProgress
from ..models import Problem, Session, SessionOutcome, SessionResult
from .hosts import SessionHosts
from .index import SessionIndex, copy_id
from .kernels import outcome_line

log = logging.getLogger(__name__)

#: Seconds for a host to keep the files of a session as they are.
LINK_SECONDS = 120.0
#: Seconds between two looks for sessions that are newer on a host, and until one that could not be
#: copied is copied again.
LOOK_SECONDS, RETRY_SECONDS = 5.0, 300.0
#: Seconds between two looks whether another copy of the same session has ended.
LOCK_SECONDS = 0.5
#: How often a copy begins again because the session was saved meanwhile.
ATTEMPTS = 3
#: Called with the bytes that are there and all bytes.
Report = Callable[[int, int], None]
COPY_STEP = StepPlan("copy", "Copy to this computer", 2)
SEND_STEP = StepPlan("send", "Copy from this computer", 2)


class ComputerSessions:
    """On the core thread's loop."""

    def __init__(self, core: Core, index: SessionIndex, hosts: SessionHosts) -> None:
        self._core = core
        self._index = index
        self._hosts = hosts
        #: By copy: the save that could not be copied, until when it is not tried again, and why.
        self._failed: dict[str, tuple[float, float, TPUError]] = {}
        #: The save of each copy that was deleted, which is not copied again.
        self._deleted: dict[str, float] = {}

    # ---- from hosts

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for name, session, limit in self._index.to_copy():
                await self._try(name, session, limit)

    async def _try(self, name: NodeName, session: Session, limit: float) -> None:
        id, saved = copy_id(session.id), self._index.saved(session.id)
        if self._deleted.get(id) == saved:
            return
        before = self._failed.get(id)
        if before is not None and before[0] == saved and time.monotonic() < before[1]:
            return
        if not self._hosts.can_reach(name):
            return
        try:
            await self.copy(name, session, limit)
            self._failed.pop(id, None)
        except TPUError as error:
            self._failed[id] = (saved, time.monotonic() + RETRY_SECONDS, error)
            log.warning("The session %s is not copied: %s", session.name, error)

    def problems(self, name: NodeName) -> list[Problem]:
        """Why sessions of a TPU are not here as they are there."""
        due = {
            copy_id(session.id): session for of, session, _ in self._index.to_copy() if of == name
        }
        return [
            Problem(
                message=f"{due[id].name} is not copied to this computer. {error.message}",
                reason=error.reason,
                hint=error.hint,
            )
            for id, (_, _, error) in self._failed.items()
            if id in due
        ]

    async def copy(
        self,
        name: NodeName,
        session: Session,
        limit: float,
        report: Report = lambda done, total: None,
    ) -> Session:
        """Brings a session that is on the disk of a host here; returns it. limit: in GB.

        Raises CONFLICT for a larger one.
        """
        id = copy_id(session.id)
        try:
            async with _locked(id):
                for _ in range(ATTEMPTS):
                    known = self._index.find(id)  # it may have been waited for
                    if known is not None and self._index.saved(id) == self._index.saved(session.id):
                        return known
                    saved = await self._copied(name, session, id, int(limit * 1e9), report)
                    if saved is not None:
                        return self._index.note_copied(session, id, saved)
        except OSError as error:
            raise TPUError(
                f"The session {session.name} can't be written on this computer: {error}",
                Reason.DISK_FULL if error.errno == errno.ENOSPC else Reason.UNAVAILABLE,
            ) from None
        raise TPUError(
            f"The session {session.name} was saved again while it was copied.",
            Reason.CONFLICT,
            "Will be retried.",
        )

    async def _copied(
        self, name: NodeName, session: Session, id: str, limit: int, report: Report
    ) -> float | None:
        """When what has arrived was saved; None: that is parts of several saves."""
        key = await self._hosts.key(name)
        if not key:
            raise TPUError(
                f"The sessions of {name.node} can't be copied: it is a coding agent's, or this "
                "computer can't store a key.",
                Reason.CONFLICT,
                f"Keep them in a bucket: jupyter tpu session auto {name.node} --in "
                "gs://BUCKET/FOLDER",
            )
        copy = secrets.token_hex(8)
        hosts = self._hosts_of(name, session)
        try:
            first = await self._hosts.copy(HostName(name, hosts[0]), session, copy)
            sizes = [first["size"]]
            for host in hosts[1:]:
                part = await self._hosts.copy(HostName(name, host), session, copy, of_pod=True)
                sizes.append(part["size"])
            if hosts[1:]:
                again = await self._hosts.copy(HostName(name, hosts[0]), session, copy)
                if again["save"] != first["save"]:
                    return None
            if sum(sizes) > limit:
                raise TPUError(
                    f"It has {size_text(sum(sizes))}, and the limit is {size_text(limit)}.",
                    Reason.CONFLICT,
                    f"Allow more: jupyter tpu session auto {name.node} --in computer --max-gb N",
                )
            here = folder(id)
            await self._download(name, hosts, copy, here, limit, report)
            return await asyncio.to_thread(_complete, here, session.name, bytes.fromhex(key))
        finally:
            await self._end_copies(name, hosts, session, copy)

    async def _download(
        self,
        name: NodeName,
        hosts: Sequence[int],
        copy: str,
        here: Path,
        limit: int,
        report: Report,
    ) -> None:
        for host in hosts:
            link = self._core.connections.link(HostName(name, host))
            parts = ["manifests", "data"] if host == hosts[0] else ["data"]
            for part in parts:
                # The manifest that is there counts until all that the new one names is there, too.
                to = here / "new" if part == "manifests" else here
                private_dir(to)
                copied = await download(
                    link,
                    [f"{storage.COPIES}/{copy}/{part}"],
                    f"{to}/",
                    overwrite=True,
                    private=True,
                    most_bytes=limit,
                    report=report,
                )
                if copied.problem_count:
                    why = copied.problems[0].message if copied.problems else ""
                    raise TPUError(f"Not all files have arrived. {why}", Reason.INTERRUPTED)

    # ---- to hosts

    @contextlib.asynccontextmanager
    async def on_hosts(
        self, name: NodeName, hosts: Sequence[int], session: Session, report: Report
    ) -> AsyncIterator[str]:
        """A folder on each of these hosts that has what is here of a session."""
        node, here = self._core.observed.require_hosts(name), folder(session.id)
        if not (here / storage.manifest_path(session.name)).exists():
            raise TPUError(
                f"The session {session.name} is not on this computer any more.", Reason.NOT_FOUND
            )
        copy = secrets.token_hex(8)
        there = f"{storage.COPIES}/{copy}"
        try:
            copies = await upload_to_hosts(
                self._core.links,
                node,
                hosts,
                [str(here / "manifests"), str(here / "data")],
                f"{there}/",
                make_folder=True,
                report=report,
                ended=lambda copy: None,
            )
            for one in copies:
                if one.problem is not None:
                    raise one.problem.to_error()
            yield there
        finally:
            await self._end_copies(name, hosts, session, copy)

    async def _end_copies(
        self, name: NodeName, hosts: Sequence[int], session: Session, copy: str
    ) -> None:
        """What stays is removed by the next copy, a day later."""
        ends = [self._hosts.copy(HostName(name, host), session, copy, ended=True) for host in hosts]
        await asyncio.gather(*ends, return_exceptions=True)

    def _hosts_of(self, name: NodeName, session: Session) -> list[int]:
        there = len(self._core.observed.require_hosts(name).endpoints)
        return [session.host, *range(1, min(session.hosts, there))]

    # ---- here

    async def delete(self, session: Session) -> None:
        """Raises UNAVAILABLE if it is still here, or a part of it."""
        self._deleted[session.id] = self._index.saved(session.id)
        try:
            await asyncio.to_thread(_delete, session.id)
        except OSError as error:
            raise TPUError(
                f"The session {session.name} can't be deleted from this computer: {error}",
                Reason.UNAVAILABLE,
                "Try again.",
            ) from None
        self._failed.pop(session.id, None)


def shown(progress: OperationProgress, step: StepPlan) -> Report:
    """Shows the progress of a copy as that of a step; may be called from any thread."""
    loop = asyncio.get_running_loop()

    def show(done: int, total: int) -> None:
        progress.part(step.key, done / total if total else 1.0)
        progress.set_message(f"{step.title}: {size_text(done)} of {size_text(total)}")

    def report(done: int, total: int) -> None:
        loop.call_soon_threadsafe(show, done, total)

    return report


async def copy_saved(
    computer: ComputerSessions,
    index: SessionIndex,
    name: NodeName,
    outcomes: Sequence[SessionOutcome],
    limit: float,
    progress: OperationProgress,
    report: Report = lambda done, total: None,
    seconds: float | None = None,
) -> list[SessionOutcome]:
    """Brings here what kernels have just saved on the disks of hosts; returns what became of each
    kernel, which is also the operation's result. seconds: for each session; None: no limit.
    """
    copied = []
    for outcome in outcomes:
        session = index.find(outcome.session) if outcome.state == "saved" else None
        if session is not None:
            try:
                async with asyncio.timeout(seconds):
                    copy = await computer.copy(name, session, limit, report)
                outcome = structs.replace(outcome, session=copy.id, place=copy.place)
            except (TPUError, TimeoutError) as error:
                problem = Problem.of(error) if isinstance(error, TPUError) else _late(session)
                outcome = structs.replace(outcome, state="failed", problem=problem)
            progress.log(outcome_line(outcome))
        copied.append(outcome)
    progress.operation.result = to_builtins(SessionResult(kernels=copied))
    return copied


def _late(session: Session) -> Problem:
    return Problem(
        message=f"The time was not enough to copy {session.name} to this computer.",
        reason=Reason.TIMEOUT,
        hint="",
    )


def folder(id: str) -> Path:
    """Where a session is here."""
    return private_dir(private_dir(data_dir() / "sessions") / id)


@contextlib.asynccontextmanager
async def _locked(id: str) -> AsyncIterator[None]:
    """One copy of a session at a time, in all processes of this computer. Others wait."""
    descriptor = os.open(folder(id) / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        while not try_lock(descriptor):  # noqa: ASYNC110 - another process has it
            await asyncio.sleep(LOCK_SECONDS)
        yield
    finally:
        os.close(descriptor)


def _delete(id: str) -> None:
    """The manifest first: what is left of an interrupted delete is no session."""
    here = folder(id)
    shutil.rmtree(here / "manifests", ignore_errors=True)
    shutil.rmtree(here)


def _complete(here: Path, name: str, key: bytes) -> float | None:
    """Has the session here be what has arrived, if that is whole, and removes what else is there.
    Returns when it was saved; None if it is not whole.
    """
    path = storage.manifest_path(name)
    data = (here / "new" / path).read_bytes()
    try:
        manifest = storage.read_manifest(name, data, key, storage.SessionErrors("on the host"))
        contents = storage.contents_of(manifest)
        sizes: dict[str, Any] = {key: record["bytes"] for key, record in manifest["arrays"].items()}
        saved = float(manifest["saved"])
    except storage.SessionError as error:
        raise TPUError(str(error), Reason.CONFLICT) from None
    except (LookupError, TypeError, AttributeError, ValueError):
        raise TPUError(f"The session {name} is damaged.", Reason.CONFLICT) from None
    own = here / storage.data_path(name)
    for content in contents:
        kind = "values" if len(content) == storage.DIGEST_LENGTH else "arrays"
        if sizes.get(content, 1) and not (own / kind / content).exists():
            return None
    private_dir(here / "manifests")
    write_atomically(here / path, data, durable=True)
    shutil.rmtree(here / "new", ignore_errors=True)
    for kind in ("values", "arrays"):
        for there in (own / kind).iterdir() if (own / kind).is_dir() else ():
            if there.name not in contents:
                shutil.rmtree(there) if there.is_dir() else there.unlink()
    return saved

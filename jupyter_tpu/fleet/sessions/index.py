"""The sessions that are known here, and what was chosen for the kernels of each TPU.

Kernels say what they have saved, and hosts what is stored. It is kept in the store, so a session in
a bucket is known after its TPU is gone. What is not known here is never deleted automatically.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs

from ...cloud import NodeName
from ...errors import Reason, TPUError
from ...on_host.agent.protocol.records import KernelReport, SavedReport, StoredSessionReport
from ..core.core import Core
from ..core.records import SessionRecord, Snapshot
from ..core.view import TPUFacts
from ..models import (
    InterruptedCell,
    Kernel,
    MissingVariable,
    Problem,
    Session,
    SessionSetting,
)
from ..models.core import timestamp
from ..models.sessions import COMPUTER

DAY_SECONDS = 86_400.0
_BUCKET = re.compile(r"gs://[a-z0-9][-_.a-z0-9]{1,220}[a-z0-9](/[^/\0-\x1f\x7f]+)*")


class SessionIndex:
    """On the core thread's loop. now: seconds since the epoch."""

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._changes = core.changes
        self._observed = core.observed
        self._connected = core.connected
        self._records = {record.session.id: record for record in core.store.snapshot.sessions}
        self._settings = dict(core.store.snapshot.session_settings)
        core.shared.reloaded.add(self._take_over)
        core.changes.register("session", self.find)
        core.tpus.register(self._describe)
        core.connected.ends_with_tpu(self._forget_tpu)

    def _take_over(self, snapshot: Snapshot) -> None:
        records = {record.session.id: record for record in snapshot.sessions}
        for id in {*self._records, *records}:
            if self._records.get(id) != records.get(id):
                self._changes.mark_changed("session", id)
        self._records = records
        changed = {
            name
            for name in {*self._settings, *snapshot.session_settings}
            if self._settings.get(name) != snapshot.session_settings.get(name)
        }
        self._settings = dict(snapshot.session_settings)
        for name in changed:
            self._connected.register_again(name)
            self._changes.mark_tpu_changed(name)

    def _describe(self, facts: TPUFacts) -> None:
        facts.sessions = self.setting(facts.name)

    def _forget_tpu(self, name: NodeName) -> None:
        """It is gone, and its disks with it. Sessions in buckets stay."""
        self.choose(name, None)
        for record in self._of(name):
            if not record.session.place:
                self.drop(record.session.id)

    # ---- what was chosen ----

    def setting(self, name: NodeName) -> SessionSetting | None:
        """Where the kernels of a TPU are saved, and when; None: nothing was chosen."""
        return self._settings.get(name)

    def choose(self, name: NodeName, setting: SessionSetting | None) -> None:
        if setting is None:
            if self._settings.pop(name, None) is None:
                return
            self._store.drop_session_setting(name)
        else:
            self._settings[name] = setting
            self._store.save_session_setting(name, setting)
        for record in self._of(name):
            self._keep(structs.replace(record, keep_days=setting.keep_days if setting else None))
        self._changes.mark_tpu_changed(name)

    # ---- what there is ----

    def find(self, id: str) -> Session | None:
        record = self._records.get(id)
        return record.session if record is not None else None

    def require(self, id: str) -> SessionRecord:
        """Raises NOT_FOUND."""
        record = self._records.get(id)
        if record is None:
            raise TPUError(
                f"There is no session {id}.",
                Reason.NOT_FOUND,
                "List them: jupyter tpu session list",
            )
        return record

    def all(self) -> list[Session]:
        """The last saved first."""
        records = sorted(self._records.values(), key=lambda record: -record.saved)
        return [record.session for record in records]

    def restorable(self, name: NodeName, node_id: str) -> list[Session]:
        """Those that kernels of a TPU can read: on its disks, and in buckets."""
        return [
            session
            for session in self.all()
            if session.place or self._records[session.id].node_id == node_id
        ]

    def on_disk(self, node_id: str) -> list[Session]:
        """Those that are lost with the disks of a node."""
        return [
            session
            for session in self.all()
            if not session.place
            and self._records[session.id].node_id == node_id
            and self.saved(copy_id(session.id)) != self.saved(session.id)
        ]

    def expired(self, now: float) -> list[SessionRecord]:
        """Those that were not saved for longer than was chosen."""
        return [
            record
            for record in self._records.values()
            if record.keep_days is not None and record.saved + record.keep_days * DAY_SECONDS < now
        ]

    def saved(self, id: str) -> float:
        """When a session was saved, in seconds since the epoch; 0: there is none."""
        record = self._records.get(id)
        return record.saved if record is not None else 0.0

    def to_copy(self) -> list[tuple[NodeName, Session, float]]:
        """The sessions on disks of TPUs which this computer does not have as they are, where it
        was chosen that it has; each with its TPU, and the limit in GB.
        """
        found = []
        for record in self._records.values():
            setting, node = self.setting(record.name), self._observed.node(record.name)
            if (
                setting is not None
                and setting.place == COMPUTER
                and not record.session.place
                and record.session.problem is None
                and node is not None
                and node.id == record.node_id
                and self.saved(copy_id(record.session.id)) != record.saved
            ):
                found.append((record.name, record.session, setting.max_gb))
        return found

    def note_copied(self, session: Session, id: str, saved: float) -> Session:
        """What was on a host is on this computer, too, under this id, as it was *saved* there."""
        record = self.require(session.id)
        copy = structs.replace(
            record.session,
            id=id,
            place=COMPUTER,
            saved=timestamp("seconds", saved),
            checked=timestamp("seconds"),
        )
        self._keep(structs.replace(record, session=copy, saved=saved))
        return self._records[id].session

    def _of(self, name: NodeName) -> list[SessionRecord]:
        return [record for record in self._records.values() if record.name == name]

    # ---- what kernels and hosts say ----

    def note_saved(self, name: NodeName, kernel: Kernel, report: SavedReport) -> Session | None:
        """A kernel has saved a session; None if it says what can't be."""
        node = self._observed.node(name)
        place = report["place"]
        if node is None or not (place == "" or _BUCKET.fullmatch(place)):
            return None
        id = session_id(name, node.id, kernel.host, place, report["name"])
        before = self._records.get(id)
        # What a host has listed does not say which kernel has saved it.
        if before is not None and before.saved == report["saved"] and before.session.kernel:
            return before.session
        self._keep(
            self._record(
                name,
                node.id,
                Session(
                    id=id,
                    name=report["name"],
                    place=place,
                    host=kernel.host,
                    kernel=kernel.id,
                    notebook=kernel.notebook,
                    **_described(report),
                ),
                report["saved"],
            )
        )
        return self._records[id].session

    def note_reported(self, name: NodeName, kernel: Kernel, report: KernelReport) -> None:
        """What a host reports of a kernel, at each change."""
        saved = report.get("saved")
        if saved is not None:
            self.note_saved(name, kernel, saved)

    def note_listed(
        self,
        name: NodeName,
        node_id: str,
        host: int,
        place: str,
        reports: Sequence[StoredSessionReport],
    ) -> None:
        """A host says which sessions there are in a place."""
        seen = set()
        for report in reports:
            id = session_id(name, node_id, host, place, report["name"])
            seen.add(id)
            before = self._records.get(id)
            saved = report.get("saved") or (before.saved if before is not None else 0.0)
            same = before is not None and before.saved == saved
            known = before.session if before is not None else None
            described = _described(report)
            if "problem" in report and known is not None:
                described["hosts"] = known.hosts
            session = Session(
                id=id,
                name=report["name"],
                place=place,
                host=host,
                kernel=known.kernel if known is not None and same else "",
                notebook=known.notebook if known is not None else "",
                interrupted=known.interrupted if known is not None and same else None,
                problem=_problem(report),
                **described,
            )
            if before is not None and before.session.problem is None and place and same:
                # It stays that of the TPU that has saved it.
                self._keep(structs.replace(before, session=_checked(session, before.session)))
            else:
                self._keep(self._record(name, node_id, session, saved))
        for record in [*self._records.values()]:
            there = record.session.place == place and (
                bool(place) or (record.node_id == node_id and record.session.host == host)
            )
            if there and record.session.id not in seen:
                self.drop(record.session.id)

    def note_interrupted(self, name: NodeName, kernel: Kernel, why: str) -> None:
        """A kernel has ended while a cell ran: its session says which."""
        for record in self._of(name):
            session = record.session
            if session.kernel != kernel.id or session.interrupted is not None:
                continue
            interrupted = InterruptedCell(
                cell=kernel.cell, kernel=kernel.id, ended=timestamp(), why=why
            )
            self._keep(
                structs.replace(record, session=structs.replace(session, interrupted=interrupted))
            )

    def drop(self, id: str) -> None:
        """It is not there any more."""
        if self._records.pop(id, None) is not None:
            self._store.drop_session(id)
            self._changes.mark_changed("session", id)

    def _record(
        self, name: NodeName, node_id: str, session: Session, saved: float
    ) -> SessionRecord:
        mine = session.tpu in ("", name.node)
        setting = self.setting(name) if mine else None
        return SessionRecord(
            project=name.project,
            zone=name.zone,
            tpu=name.node,
            node_id=node_id,
            session=structs.replace(
                session,
                tpu=session.tpu or name.node,
                zone=session.zone or name.zone,
                checked=timestamp("seconds"),
                billed=session.place.startswith("gs://"),
            ),
            keep_days=setting.keep_days if setting is not None else None,
            saved=saved,
        )

    def _keep(self, record: SessionRecord) -> None:
        days, session = record.keep_days, record.session
        ends = record.saved + days * DAY_SECONDS if days is not None else None
        expires = timestamp("seconds", ends) if ends is not None else ""
        record = structs.replace(record, session=structs.replace(session, expires=expires))
        if self._records.get(session.id) != record:
            self._records[session.id] = record
            self._store.save_session(record)
            self._changes.mark_changed("session", session.id)


def copy_id(id: str) -> str:
    """That of the copy on this computer of a session on a host's disk. A TPU of the same name has
    another disk, so its sessions replace no copy of this one's.
    """
    return hashlib.sha256(f"{COMPUTER}\0{id}".encode()).hexdigest()[:16]


def session_id(name: NodeName, node_id: str, host: int, place: str, session: str) -> str:
    """The same for the same name in the same place; *node_id* and *host* say which disk it is."""
    where = place or f"{name.project}/{name.zone}/{name.node}/{node_id}/{host}"
    return hashlib.sha256(f"{where}\0{session}".encode()).hexdigest()[:16]


def missing_variables(pairs: Iterable[Sequence[str]]) -> list[MissingVariable]:
    return [MissingVariable(name=name, why=why) for name, why in pairs]


def _described(report: Mapping[str, Any]) -> dict[str, Any]:
    """What both a kernel and a manifest say of a session."""
    saved = report.get("saved")
    return {
        "saved": timestamp("seconds", saved) if saved else "",
        "size": report.get("size", 0),
        "variables": report.get("variables", 0),
        "missing": missing_variables(report.get("missing", ())),
        "missing_count": report.get("missing_count", 0),
        **{name: report.get(name, "") for name in ("tpu", "zone", "type")},
        **{name: report[name] for name in ("python", "jax") if name in report},
        "emulated": report.get("emulated", False),
        "hosts": report.get("hosts", 1),
    }


def _problem(report: StoredSessionReport) -> Problem | None:
    why = report.get("problem", "")
    if not why:
        return None
    return Problem(message=why, reason=Reason.CONFLICT, hint="Delete it if you don't need it.")


def _checked(session: Session, before: Session) -> Session:
    return structs.replace(session, billed=before.billed, checked=timestamp("seconds"))

"""Which TPUs keep folders of their home, and what is known of the copies.

What was chosen belongs to the name: it stays when the TPU is gone, for the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from ...cloud import Node, NodeName
from ...errors import Reason, TPUError
from ...on_host.agent.protocol.records import HomeOutcomeReport
from ..core.core import Core
from ..core.records import HomeRecord, Snapshot
from ..core.view import TPUFacts
from ..models import Home, HomeOutcome, HomeSetting, NotSaved, Problem
from ..models.core import timestamp

_DOING = {"save": "save", "restore": "restore", "adopt": "restore", "forget": "forget"}


class HomeIndex:
    """On the core thread's loop."""

    def __init__(self, core: Core) -> None:
        self._store = core.store
        self._changes = core.changes
        self._observed = core.observed
        self._records = {record.id: record for record in core.store.snapshot.homes}
        #: What each host last said that it has noted: the hash of the setting.
        self.noted: dict[NodeName, str] = {}
        #: What hosts had noted of TPUs for which nothing is chosen any more.
        self.dropped: set[str] = set()
        core.shared.reloaded.add(self._take_over)
        core.tpus.register(self._describe)

    def _take_over(self, snapshot: Snapshot) -> None:
        records = {record.id: record for record in snapshot.homes}
        changed = [
            (self._records.get(id) or records[id]).name
            for id in {*self._records, *records}
            if self._records.get(id) != records.get(id)
        ]
        gone = (record for id, record in self._records.items() if id not in records)
        self.dropped.update(record.told for record in gone)
        self._records = records
        for name in changed:
            self._changes.mark_tpu_changed(name)

    def _describe(self, facts: TPUFacts) -> None:
        record = self.of(facts.name)
        if record is not None:
            there = facts.ready and record.node_id == facts.node.id
            facts.home = structs.replace(record.home, there=there)

    def all(self) -> list[Home]:
        """By their names."""
        homes = []
        for record in sorted(self._records.values(), key=lambda record: record.tpu):
            node = self._observed.node(record.name)
            there = node is not None and bool(record.node_id) and node.id == record.node_id
            homes.append(structs.replace(record.home, there=there))
        return homes

    def of(self, name: NodeName) -> HomeRecord | None:
        """What was chosen for a TPU, or for the one before it of the name. None also while another
        TPU of the name has them, in another zone.
        """
        record = self._records.get(f"{name.project}/{name.node}")
        if record is None or record.zone == name.zone or not record.node_id:
            return record
        other = self._observed.node(record.name)
        if other is not None and other.id == record.node_id:
            return None
        return record if self._observed.complete(record.name) else None

    def called(self, ref: str) -> HomeRecord | None:
        """That of a TPU which may be gone, by its name; as a reference, with its zone."""
        zone, _, node = ref.replace("~", "/", 1).rpartition("/")
        matching = [
            record
            for record in self._records.values()
            if record.tpu == node and zone in ("", record.zone)
        ]
        return matching[0] if len(matching) == 1 else None

    def choose(self, name: NodeName, setting: HomeSetting) -> Home:
        before = self.of(name)
        other = self._records.get(f"{name.project}/{name.node}")
        if before is None and other is not None:
            raise TPUError(
                f"{other.tpu} in {other.zone} has home folders in a bucket. Two TPUs of one name "
                "can't both have them.",
                Reason.CONFLICT,
                f"Remove that first: jupyter tpu home off {other.zone}~{other.tpu}",
            )
        same = before is not None and before.home.setting.place == setting.place
        home = (
            structs.replace(before.home, setting=setting) if before is not None and same else None
        )
        record = HomeRecord(
            project=name.project,
            zone=name.zone,
            tpu=name.node,
            home=home or Home(tpu=name.node, zone=name.zone, setting=setting),
            node_id=before.node_id if before is not None and same else "",
            told=before.told if before is not None and same else "",
        )
        self._keep(record)
        return record.home

    def drop(self, record: HomeRecord) -> None:
        current = self._records.pop(record.id, record)
        self.dropped.add(current.told)
        self._store.drop_home(record.id)
        self._changes.mark_tpu_changed(record.name)

    def settled(self, record: HomeRecord, node: Node, setting: str) -> None:
        """A TPU has them now, and saves them."""
        current = self._records.get(record.id)
        if current is None:
            return
        self.noted[node.name] = setting
        self.dropped.discard(setting)
        home = structs.replace(current.home, zone=node.name.zone)
        self._keep(
            structs.replace(current, zone=node.name.zone, node_id=node.id, told=setting, home=home)
        )

    def update(self, name: NodeName, report: Mapping[str, Any] | None) -> None:
        """What host 0 of a TPU says of them; None: nothing was chosen for it."""
        self.noted[name] = report["setting"] if report is not None else ""
        record = self.of(name)
        if record is None or report is None:
            return
        doing: Any = _DOING.get(report["doing"], "")
        home = structs.replace(record.home, doing=doing, done=report["done"], total=report["total"])
        outcome = report["outcome"]
        # What was deleted there was that of another TPU: its own is not chosen after that.
        if outcome and outcome["do"] != "forget" and report["setting"] == record.told:
            home = _with_outcome(home, outcome_of(outcome))
        if home != record.home:
            self._keep(structs.replace(record, home=home))

    def note(self, record: HomeRecord, outcome: HomeOutcome) -> None:
        """What became of a request."""
        current = self._records.get(record.id)
        if current is not None:
            home = structs.replace(current.home, doing="", done=0, total=0)
            self._keep(structs.replace(current, home=_with_outcome(home, outcome)))

    def _keep(self, record: HomeRecord) -> None:
        before = self._records.get(record.id)
        self._records[record.id] = record
        if before is None or _stored(before) != _stored(record):
            self._store.save_home(record)
        self._changes.mark_tpu_changed(record.name)


def _stored(record: HomeRecord) -> HomeRecord:
    """Without what changes all the time, and is asked for again."""
    home = structs.replace(record.home, doing="", done=0, total=0)
    return structs.replace(record, home=home)


def _with_outcome(home: Home, outcome: HomeOutcome) -> Home:
    if outcome.state in ("saved", "restored", "same"):
        home = structs.replace(
            home,
            saved=outcome.saved,
            files=outcome.files,
            size=outcome.size,
            left_out=outcome.left_out,
            left_out_count=outcome.left_out_count,
        )
    elif outcome.state in ("empty", "forgotten"):
        home = structs.replace(home, saved="", files=0, size=0, left_out=[], left_out_count=0)
    return structs.replace(home, last=outcome)


def outcome_of(report: HomeOutcomeReport) -> HomeOutcome:
    saved, why = report.get("saved"), report.get("why", "")
    problem = Problem(message=why, reason=Reason.CONFLICT, hint="") if why else None
    return HomeOutcome(
        state=report["state"],
        at=timestamp("seconds", report["at"]),
        saved=timestamp("seconds", saved) if saved else "",
        files=report.get("files", 0),
        size=report.get("size", 0),
        new=report.get("new", 0),
        left_out=[NotSaved(path=path, why=why) for path, why in report.get("left_out", ())],
        left_out_count=report.get("left_out_count", 0),
        kept=list(report.get("kept", ())),
        kept_count=report.get("kept_count", 0),
        replaced=list(report.get("replaced", ())),
        replaced_count=report.get("replaced_count", 0),
        problem=problem,
    )

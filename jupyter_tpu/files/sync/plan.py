"""What a sync has to do, from what is here, what is there, and what was last the same. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

from msgspec import Struct

#: The state of each file: text that is equal where the file is (see `on_host.files.tree`).
States = Mapping[str, str]


class Conflict(Struct, frozen=True):
    """A file that is not copied, because what the target has would be lost unseen.

    kind: "changed" on both sides since they were the same; "different": both have it, and they
    never were the same; "deleted" in the source, and changed in the target.
    """

    path: str
    kind: Literal["changed", "different", "deleted"]


class SyncPlan(Struct, frozen=True):
    """What makes the target like the source.

    write: paths to write. delete: paths to delete. conflicts: what is left as it is. newer: paths
    that only the target has changed. agreed: the states that are the same in both now, before
    anything is done.
    """

    write: list[str]
    delete: list[str]
    conflicts: list[Conflict]
    newer: list[str]
    agreed: dict[str, str]


def make_plan(
    source: States,
    target: States,
    base: States,
    *,
    delete: bool = True,
    overwrite: bool = False,
    within: Callable[[str], bool] = lambda path: True,
) -> SyncPlan:
    """A three-way comparison.

    Parameters
    ----------
    base: the states of the last sync, as far as both sides had them.
    delete: whether what the source has no more is deleted, if the target has not changed it.
    overwrite: whether conflicts are decided for the source. What was never in the source stays.
    within: which paths it is about; the others are left as they are.
    """
    plan = SyncPlan([], [], [], [], {})
    for path in sorted({*source, *target, *base}):
        here, there, before = source.get(path), target.get(path), base.get(path)
        if here == there:
            if here is not None:
                plan.agreed[path] = here
            continue
        if before is not None:
            plan.agreed[path] = before
        if not within(path):
            continue
        if here is None:
            _plan_deletion(plan, path, there, before, delete=delete, overwrite=overwrite)
        elif there is None or there == before or overwrite:
            plan.write.append(path)
        elif here == before:
            plan.newer.append(path)
        else:
            plan.conflicts.append(Conflict(path, "changed" if before else "different"))
    return plan


def _plan_deletion(
    plan: SyncPlan,
    path: str,
    there: str | None,
    before: str | None,
    *,
    delete: bool,
    overwrite: bool,
) -> None:
    """For a path that the source does not have, or has no more."""
    if there is None:
        plan.agreed.pop(path, None)  # both have deleted it
    elif before is None:
        plan.newer.append(path)  # the target's own
    elif there == before or overwrite:
        if delete:
            plan.delete.append(path)
    elif delete:
        plan.conflicts.append(Conflict(path, "deleted"))

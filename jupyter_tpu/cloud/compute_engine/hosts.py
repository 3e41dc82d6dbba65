"""Single instances: what they publish, and changes of them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Any

from ...errors import Reason, TPUError
from ..models import END_LABEL, GuestAttributes
from .calls import ComputeCalls, readable
from .nodes import metadata_of

Body = dict[str, Any]

#: What Google does with an instance that it ends, where that has to be said; see `machines`.
_USUAL_ACTIONS = {"SPOT": "STOP", "RESERVATION_BOUND": "DELETE"}
#: Seconds before a change is made again, after someone else has changed the same instance.
_PAUSES = (0.3, 0.7, 1.5, 3.0, 5.0, 8.0, 10.0)


async def change(
    calls: ComputeCalls, path: str, verb: str, changed: Callable[[Body], Body | None]
) -> bool:
    """Replaces a field of the instance at *path* by what *changed* makes of the instance; False
    where that is None. Someone else's change at the same time is kept.
    """
    for pause in (*_PAUSES, None):
        with readable("an instance"):
            body = changed(await calls.read(path))
        if body is None:
            return False
        try:
            await calls.change("POST", f"{path}/{verb}", body, id=str(uuid.uuid4()))
            return True
        except TPUError as error:
            if error.reason is not Reason.CONFLICT or pause is None:
                raise
            await asyncio.sleep(pause)
    raise AssertionError  # the last attempt returns or raises


async def change_metadata(
    calls: ComputeCalls,
    paths: Iterable[str],
    changed: Callable[[dict[str, str]], dict[str, str] | None],
) -> bool:
    """As :func:`change`, of the metadata of several; whether there was something to change."""

    def body_of(now: Body) -> Body | None:
        new_metadata = changed(metadata_of(now))
        if new_metadata is None:
            return None
        return {
            "items": [{"key": key, "value": value} for key, value in new_metadata.items()],
            "fingerprint": now.get("metadata", {}).get("fingerprint", ""),
        }

    done = [change(calls, path, "setMetadata", body_of) for path in paths]
    return any(await asyncio.gather(*done))


async def published(calls: ComputeCalls, path: str, query: str) -> GuestAttributes:
    """The guest attributes under *query* ("hostkeys/") of the instance at *path*."""
    try:
        attributes = await calls.read(f"{path}/getGuestAttributes", queryPath=query)
    except TPUError as error:
        if error.reason is Reason.NOT_FOUND:  # nothing yet
            return {}
        raise
    with readable("guest attributes"):
        items = attributes.get("queryValue", {}).get("items", ())
        return {(item["namespace"], item["key"]): item.get("value", "") for item in items}


async def set_end(calls: ComputeCalls, path: str, ends: float | None) -> None:
    """Lets Google delete the instance at *path* then; None: not any more. An end that is not marked
    as ours stays, and so does that of flex-start, which needs a run time.

    A point in time, since Google counts a run time anew after each start. Google's reference says
    that only a stopped instance can be changed; users have changed running ones.
    """

    def labelled(now: Body) -> Body | None:
        labels = now.get("labels", {})
        if END_LABEL in labels or not _may_set(now):
            return None
        marked = {**labels, END_LABEL: "guard"}
        return {"labels": marked, "labelFingerprint": now.get("labelFingerprint", "")}

    def scheduled(now: Body) -> Body | None:
        if not _may_set(now):
            return None
        before = now.get("scheduling", {})
        until = None if ends is None else datetime.fromtimestamp(ends, UTC).isoformat()
        if until is None and not _has_end(now):
            return None
        # What is null is cleared, and what is missing may be either.
        changed: Body = {"maxRunDuration": None, "terminationTime": until}
        model = str(before.get("provisioningModel", ""))
        action = "DELETE" if until else _USUAL_ACTIONS.get(model)
        return {**before, **changed, "instanceTerminationAction": action}

    if ends is not None:
        await change(calls, path, "setLabels", labelled)
    await change(calls, path, "setScheduling", scheduled)


def _has_end(instance: Body) -> bool:
    scheduling = instance.get("scheduling", {})
    return bool(scheduling.get("maxRunDuration") or scheduling.get("terminationTime"))


def _may_set(instance: Body) -> bool:
    flex = instance.get("scheduling", {}).get("provisioningModel") == "FLEX_START"
    return not flex and (END_LABEL in instance.get("labels", {}) or not _has_end(instance))

"""What single instances say of themselves, and what is changed of them."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from ...errors import Reason, TPUError
from ..models import GuestAttributes
from .calls import ComputeCalls, readable
from .nodes import metadata_of

Body = dict[str, Any]

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
        wanted = changed(metadata_of(now))
        if wanted is None:
            return None
        return {
            "items": [{"key": key, "value": value} for key, value in wanted.items()],
            "fingerprint": now.get("metadata", {}).get("fingerprint", ""),
        }

    done = [change(calls, path, "setMetadata", body_of) for path in paths]
    return any(await asyncio.gather(*done))


async def published(calls: ComputeCalls, path: str, wanted: str) -> GuestAttributes:
    """The guest attributes under *wanted* ("hostkeys/") of the instance at *path*."""
    try:
        found = await calls.read(f"{path}/getGuestAttributes", queryPath=wanted)
    except TPUError as error:
        if error.reason is Reason.NOT_FOUND:  # nothing yet
            return {}
        raise
    with readable("guest attributes"):
        items = found.get("queryValue", {}).get("items", ())
        return {(item["namespace"], item["key"]): item.get("value", "") for item in items}

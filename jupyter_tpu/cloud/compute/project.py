"""The metadata of a project, which all its hosts read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from ...errors import Reason, TPUError
from ..google_apis import GoogleAPIs
from .operations import wait_until_done

#: Seconds before it is read again, after someone else has changed it at the same time.
_PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)


class ProjectMetadata:
    """The metadata that all hosts of *project* have, unless a TPU's own say otherwise:
    "enable-oslogin". All methods raise what `GoogleAPIs` raises.
    """

    def __init__(self, apis: GoogleAPIs, project: str) -> None:
        self._apis = apis
        self._root = f"/compute/v1/projects/{project}"

    async def read(self) -> dict[str, str]:
        """By their keys."""
        return _items(await self._described())

    async def change(self, change: Callable[[Mapping[str, str]], dict[str, str] | None]) -> bool:
        """Replaces all metadata by what *change* makes of them; False where that is None.

        Someone else's change at the same time is kept: then *change* is called again. After
        TIMEOUT and UNAVAILABLE it is not known whether it was done.
        """
        for pause in (*_PAUSES, None):
            now = await self._described()
            changed_items = change(_items(now))
            if changed_items is None:
                return False
            body = {
                "fingerprint": now.get("fingerprint", ""),
                "items": [{"key": key, "value": value} for key, value in changed_items.items()],
            }
            try:
                path = f"{self._root}/setCommonInstanceMetadata"
                operation = await self._apis.post("compute", path, body)
                await wait_until_done(operation, self._get)
                return True
            except TPUError as error:
                if error.reason is Reason.PERMISSION and "roles/tpu.admin" in error.hint:
                    error.hint = (
                        "Ask the project's owner for the role Compute Instance Admin "
                        "(roles/compute.instanceAdmin.v1), or to do this for you."
                    )
                if error.reason is not Reason.CONFLICT or pause is None:
                    raise
                await asyncio.sleep(pause)
        raise AssertionError  # the last attempt returns or raises

    async def _described(self) -> dict[str, Any]:
        project = await self._apis.get("compute", self._root)
        described: dict[str, Any] = project.get("commonInstanceMetadata", {})
        return described

    async def _get(self, path: str) -> dict[str, Any]:
        return await self._apis.get("compute", f"{self._root}/{path}")


def _items(metadata: Mapping[str, Any]) -> dict[str, str]:
    return {str(item["key"]): str(item.get("value", "")) for item in metadata.get("items", ())}

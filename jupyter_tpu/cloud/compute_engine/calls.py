"""Calls of Compute Engine: reads that are repeated, changes that are not, lists of all zones."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from ...backoff import POLLING, Backoff
from ...errors import Reason, TPUError
from ..google_apis import GoogleAPIs
from ..models import OperationStatus
from ..target import Target
from .errors import call_error, operation_error, unreadable

log = logging.getLogger(__name__)

#: What an operation's name begins with here, so that it is not one of Cloud TPU.
OPERATION = "compute/"
#: For how long reads are repeated, in seconds; an emulator is there or it is not.
_READ_RETRY_LIMIT = 6.0
_EMULATOR_RETRY_LIMIT = 1.5
_RETRIES = Backoff(0.2, 2.0)
#: Seconds that a small change (a label, metadata, a template) may take.
_CHANGE_LIMIT = 180.0

Body = dict[str, Any]


class ComputeCalls:
    """All methods raise TPUError and nothing else. A *path* is one below a version: "projects/P/…".

    read: also NOT_FOUND. write: EXISTS, CONFLICT, INVALID, QUOTA and PERMISSION say that nothing
    was changed; after UNAVAILABLE, TIMEOUT and INTERNAL that is not known.
    """

    def __init__(self, target: Target) -> None:
        self._apis = GoogleAPIs(target, target.project or "")
        emulated = target.emulator is not None
        self._retry_limit = _EMULATOR_RETRY_LIMIT if emulated else _READ_RETRY_LIMIT

    def now(self) -> datetime:
        """The time by Google's clock."""
        return self._apis.now()

    async def read(self, path: str, **query: str) -> Body:
        """The resource or page at *path*. Repeated for a few seconds where that may help."""
        clock = asyncio.get_running_loop().time
        end = clock() + self._retry_limit
        for pause in _RETRIES:
            try:
                return await self._call("GET", path, None, **query)
            except TPUError as error:
                passing = error.reason in (Reason.UNAVAILABLE, Reason.RATE_LIMITED)
                if not passing or (error.retry_after or 0.0) >= 1.0 or clock() + pause > end:
                    raise
            await asyncio.sleep(pause)
        raise AssertionError  # pauses never end

    async def find(self, path: str) -> Body | None:
        """As :meth:`read`; None for what certainly does not exist."""
        try:
            return await self.read(path)
        except TPUError as error:
            if error.reason is Reason.NOT_FOUND:
                return None
            raise

    async def items(self, path: str, **query: str) -> list[Body]:
        """The items of all pages of a list."""
        return [item for page in await self._pages(path, query) for item in page.get("items", ())]

    async def aggregated(
        self, project: str, collection: str, **query: str
    ) -> tuple[list[Body], set[str]]:
        """Those of *collection* ("instances") in all zones and regions, and the zones that did not
        answer.
        """
        resources: list[Body] = []
        unreachable: set[str] = set()
        query = {"returnPartialSuccess": "true", **query}
        for page in await self._pages(f"projects/{project}/aggregated/{collection}", query):
            unreachable.update(url.rpartition("/")[2] for url in page.get("unreachables", ()))
            for place, scope in page.get("items", {}).items():
                resources += scope.get(collection, ())
                if scope.get("warning", {}).get("code") == "UNREACHABLE":
                    unreachable.add(place.rpartition("/")[2])
        return resources, unreachable

    async def write(
        self, method: str, path: str, body: Body | None = None, *, id: str = "", **query: str
    ) -> Body:
        """Google's operation that makes the change. *id*: the same request, if it arrives twice, is
        one for Google.
        """
        return await self._call(method, path, body, **({"requestId": id} if id else {}), **query)

    async def change(
        self, method: str, path: str, body: Body | None = None, *, id: str = ""
    ) -> None:
        """As :meth:`write`, and waits until it is done. TIMEOUT where it is not known."""
        operation = await self.write(method, path, body, id=id)
        try:
            async with asyncio.timeout(_CHANGE_LIMIT):
                for pause in POLLING:
                    if operation.get("status") == "DONE":
                        break
                    await asyncio.sleep(pause)
                    operation = await self._again(path_of(operation))
        except TimeoutError as error:
            raise TPUError(
                f"Compute Engine did not finish within {_CHANGE_LIMIT:.0f} s.",
                Reason.TIMEOUT,
                "Check again in a minute.",
            ) from error
        if (problem := operation_error(operation)) is not None:
            raise problem

    async def _again(self, path: str) -> Body:
        """An operation; whatever is said of it instead says nothing about the change."""
        try:
            return await self.read(path)
        except TPUError as error:
            raise TPUError(error.message, Reason.UNAVAILABLE, error.hint) from error

    async def operation(self, name: str) -> OperationStatus:
        """How far an operation is; NOT_FOUND for one that Google has forgotten."""
        path = name.removeprefix(OPERATION)
        body = await self.read(path)
        with readable("an operation"):
            project = path.split("/")[1]
            if body["status"] == "DONE":
                return OperationStatus(True, operation_error(body, project=project))
            target = str(body.get("targetLink", "")).partition("/projects/")[2]
        if body.get("operationType") == "insert" and "/instances/" in target:
            instance = await self.find(f"projects/{target}")
            waits = instance is not None and instance.get("status") == "PENDING"
            return OperationStatus(False, waiting=waits)
        return OperationStatus(False)

    async def _pages(self, path: str, query: dict[str, str]) -> list[Body]:
        answers = [await self.read(path, **query)]
        while token := answers[-1].get("nextPageToken"):
            answers.append(await self.read(path, **query, pageToken=str(token)))
        return answers

    async def _call(self, method: str, path: str, body: Body | None, **query: str) -> Body:
        try:
            return await self._apis.call(method, "compute", f"/compute/v1/{path}", body, **query)
        except TPUError as error:
            raise call_error(error) from error.__cause__


def path_of(resource: Body) -> str:
    """The path of a resource or an operation that Google has described."""
    return "projects/" + str(resource["selfLink"]).partition("/projects/")[2]


def name_of(operation: Body) -> str:
    """The name of an operation, for `Cloud.operation`."""
    with readable("an operation"):
        return OPERATION + path_of(operation)


@contextlib.contextmanager
def readable(what: str) -> Iterator[None]:
    """An answer that can't be read becomes a TPUError (INTERNAL)."""
    try:
        yield
    except TPUError:
        raise
    except Exception as error:
        log.exception("The answer of Compute Engine could not be read: %s", what)
        raise unreadable(f"{type(error).__name__}: {error}") from error

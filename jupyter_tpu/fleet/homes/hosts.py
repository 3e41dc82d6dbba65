"""What host 0 of a TPU is asked about its home folders. It reads and writes the bucket itself."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Callable
from typing import Any, cast

from ...backoff import Backoff
from ...cloud import Node, NodeName
from ...errors import Reason, TPUError
from ...on_host.agent.home.state import setting_digest
from ...on_host.agent.protocol import requests
from ...on_host.agent.protocol.records import HomeReport
from ..core.core import Core
from ..core.host_programs import ready_pythons, signing_key
from ..models import HomeOutcome, HomeSetting
from .index import outcome_of

#: Seconds between two looks at what runs; and for one that is cancelled to end.
_LOOKS = Backoff(0.2, 1.0)
CANCEL_SECONDS = 10.0
_GIGABYTE = 1_000_000_000

#: Called with the bytes that are done, and all.
Moved = Callable[[int, int], None]


class HomeHosts:
    def __init__(self, core: Core) -> None:
        self._core = core

    def can_reach(self, name: NodeName) -> bool:
        """Whether its host can be asked now."""
        return self._core.observed.is_ready(name) and bool(ready_pythons(self._core, name))

    async def setting(self, node: Node, setting: HomeSetting, tpu: str) -> requests.HostHomeSetting:
        """What a host is told. *tpu*: the name under which they are stored. Raises TPUError."""
        name = node.name
        pythons = ready_pythons(self._core, name)
        if not pythons:
            raise TPUError(
                f"{name.node} has no environment, so its home folders can't be copied.",
                Reason.CONFLICT,
                f"Connect it first: jupyter tpu connect {name.node}",
            )
        key = await signing_key(self._core, name)
        if not key:
            raise TPUError(
                f"The home folders of {name.node} can't be kept: it is a coding agent's, or this "
                "computer can't store a key.",
                Reason.CONFLICT,
            )
        told: Any = {
            "python": pythons[0],
            "place": setting.place,
            "project": name.project,
            "tpu": tpu,
            "key": key,
            "folders": setting.folders,
            "limit": int(setting.max_gb * _GIGABYTE),
            "idle": setting.seconds,
            "about": {"zone": name.zone, "type": node.type, "node": node.id},
        }
        return cast(requests.HostHomeSetting, told)

    async def note(self, name: NodeName, setting: requests.HostHomeSetting | None) -> str:
        """Has the host save them from now on, or not any more; returns the hash of the setting."""
        await self._ask(name, "set", "", setting)
        return setting_digest(dict(setting)) if setting is not None else ""

    async def carry_out(
        self,
        name: NodeName,
        do: str,
        setting: requests.HostHomeSetting,
        moved: Moved = lambda done, total: None,
        *,
        seconds: float = 0.0,
    ) -> HomeOutcome:
        """What becomes of it; see `AskHomeRequest`. seconds: after which it is cancelled; 0: never.

        Raises TPUError if the host can't be asked.
        """
        loop, id = asyncio.get_running_loop(), uuid.uuid4().hex[:16]
        deadline = loop.time() + seconds if seconds else None
        try:
            for pause in _LOOKS:
                report = await self._ask(name, do, id, setting)
                outcome = report["outcome"] if report is not None else None
                if outcome is not None and outcome["id"] == id:
                    return outcome_of(outcome)
                if report is not None and report["id"] == id:
                    moved(report["done"], report["total"])
                if deadline is not None and loop.time() > deadline:
                    await self._cancel(name, id)
                    raise TPUError(
                        f"It did not end within {seconds:.0f} s. What was saved before is still "
                        "there.",
                        Reason.TIMEOUT,
                    )
                await asyncio.sleep(pause)
        except asyncio.CancelledError:
            await self._cancel(name, id)
            raise
        raise AssertionError  # the looks have no end

    async def _cancel(self, name: NodeName, id: str) -> None:
        with contextlib.suppress(TPUError, TimeoutError):
            async with asyncio.timeout(CANCEL_SECONDS):
                await self._ask(name, "cancel", id, None)

    async def _ask(
        self, name: NodeName, do: str, id: str, setting: requests.HostHomeSetting | None
    ) -> HomeReport | None:
        request = requests.AskHomeRequest(do=do, id=id, setting=setting)
        answer = await self._core.connections.request(name, request)
        return answer["home"]


def require(outcome: HomeOutcome) -> HomeOutcome:
    """Raises TPUError for one that has failed."""
    if outcome.state in ("failed", "cancelled"):
        if outcome.problem is not None:
            raise outcome.problem.to_error()
        raise TPUError("It was cancelled.", Reason.CANCELLED, "Try again.")
    return outcome

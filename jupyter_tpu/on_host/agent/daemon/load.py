"""Samples of the load of this host's chips. The client that asks most often sets the interval.

Samples are numbered and kept for a while, so that a client gets those that it missed while its link
was down. Nothing is sampled while no one asks.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, Awaitable, Callable, Deque, Dict, List, Optional, Sequence, Tuple, cast

from ..metrics.libtpu import read
from ..protocol.chips import chips, holders
from ..protocol.chosen_chips import devices_by_chip
from ..protocol.process_tree import descendants
from ..protocol.records import KernelReport, Load
from ..protocol.timeouts import cancel_all, with_timeout

#: Seconds that reading may take, and the samples that are kept.
READ_SECONDS, KEPT_SAMPLES = 3.0, 150


class LoadSampler:
    """Samples of libtpu's figures; see `read_sample` for what each has.

    on_sample() is called after each. kernels() gives the status of each kernel.
    """

    def __init__(
        self,
        on_sample: Callable[[], None],
        kernels: Callable[[], Awaitable[Sequence[KernelReport]]],
    ) -> None:
        self._on_sample = on_sample
        self._kernels = kernels
        self._samples: Deque[Tuple[int, float, Dict[str, Any]]] = deque(maxlen=KEPT_SAMPLES)
        self._number = 0
        self._begun = float("-inf")
        self._task: "Optional[asyncio.Future[None]]" = None

    def sample(self, every: float) -> float:
        """Begins a sample if the latest one was begun *every* seconds ago; returns in how many
        seconds it is time for another one.
        """
        due = self._begun + every - time.monotonic()
        if due > 0 or self._task is not None:
            return due if due > 0 else every
        self._begun = time.monotonic()
        self._task = asyncio.ensure_future(self._sample_now())
        return every

    async def latest(self) -> List[Load]:
        """A sample that is taken now."""
        self.sample(0.0)
        if self._task is not None:
            await asyncio.shield(self._task)
        return self.since(self._number - 1)

    def since(self, number: int) -> List[Load]:
        """The samples after the one with this *number*, with their ``age`` in seconds.

        With a number that this daemon has not given yet, which was another daemon's: all.
        """
        now = time.monotonic()
        number = number if number <= self._number else 0
        return [
            cast("Load", {**sample, "number": sample_number, "age": round(now - time_taken, 1)})
            for sample_number, time_taken, sample in self._samples
            if sample_number > number
        ]

    async def close(self) -> None:
        """Ends what is being read."""
        if self._task is not None:
            await cancel_all([self._task])

    async def _sample_now(self) -> None:
        try:
            sample = await read_sample(await self._kernels())
            self._number += 1
            self._samples.append((self._number, time.monotonic(), sample))
        finally:
            self._task = None
        self._on_sample()


async def read_sample(kernels: Sequence[KernelReport]) -> Dict[str, Any]:
    """One sample: its ``state``, and ``chips`` (see `Figures`), ``queue`` and ``errors``; of the
    *kernels* those with chips of their own are ``bookings``; ``silent``: how many of the programs
    that use the chips report no figures.

    The state is "ok"; "idle": no process uses the chips; "no_port": one does, and serves no
    figures; "unreadable": what answers can't be read, and ``why``; "no_device": there are no chips.
    """
    count = len(devices_by_chip()) or len(chips())
    if not count:
        return {"state": "no_device"}
    bookings: List[Any] = [
        {"chips": kernel["booked"], "kernel": kernel["id"], "notebook": kernel["notebook"]}
        for kernel in kernels
        if kernel.get("booked") and kernel["state"] != "dead"
    ]
    bookings.sort(key=lambda booking: booking["chips"])
    host: Dict[str, Any] = {"of": count, **({"bookings": bookings} if bookings else {})}
    try:
        figures, problem = await with_timeout(
            read(count, [booking["chips"] for booking in bookings]), READ_SECONDS
        )
    except asyncio.TimeoutError:
        figures, problem = None, "no answer for %.0f s" % READ_SECONDS
    if figures is not None:
        fields = figures._asdict()
        silent = max(0, _programs() - fields.pop("programs"))
        return {"state": "ok", **host, **fields, **({"silent": silent} if silent else {})}
    if problem:
        return {"state": "unreadable", "why": problem, **host}
    return {"state": "no_port" if holders() else "idle", **host}


def _programs() -> int:
    """How many programs are seen to use the chips; one with its children counts once."""
    users = {holder["pid"] for holder in holders() if holder["devices"]}
    return len(users - {child for pid in users for child in descendants(pid)})

"""Asks hosts where they are in the running cell."""

from __future__ import annotations

import asyncio
from typing import Dict, Iterable, Tuple

from ..protocol.events import CONTROL
from ..protocol.timeouts import is_set_within
from .hosts import Asked, PodHosts

#: Seconds for the hosts to answer.
ANSWER_SECONDS = 0.4


class Looks:
    """What *hosts* are asked, and have not told yet."""

    def __init__(self, hosts: PodHosts) -> None:
        self._hosts = hosts
        self._asked: Dict[Tuple[str, int], None] = {}
        self._silent: Dict[int, None] = {}  # hosts that have not answered the last question
        self._all_told = asyncio.Event()

    async def ask(self, hosts: Iterable[int], number: int, *, chips: bool) -> None:
        """Returns when all have told where they are in the cell of that *number*, and what their
        *chips* run, or after `ANSWER_SECONDS` seconds.
        """
        for host in hosts:
            self._asked["stack", host] = None
            if host not in self._silent:  # else it would have the more to answer some day
                self._silent[host] = None
                self._hosts.ask(Asked(host, "stack", number), "stack", {}, CONTROL)
            if chips:
                self._asked["places", host] = None
                self._hosts.ask_places(host)
        self._all_told.clear()
        await is_set_within(self._all_told, ANSWER_SECONDS)
        self._asked.clear()

    def told(self, what: str, host: int) -> None:
        """A host has answered: its "stack", or the "places" at which its chips are."""
        self._asked.pop((what, host), None)
        if what == "stack":
            self._silent.pop(host, None)
        if not self._asked:
            self._all_told.set()

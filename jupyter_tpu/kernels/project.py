"""The project of a kernel's notebook: on the kernel's host as it is here, whenever a cell runs."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path

from ..agent.protocol.events import SHELL
from ..environment.project import (
    Mirror,
    MirrorHost,
    MirrorNews,
    ProjectLocation,
    default_mirrors,
    find_project,
    project_at,
)
from ..errors import TPUError

log = logging.getLogger(__name__)

#: Seconds for which a cell waits for what was changed here, while the host can be reached.
HOLD = 10.0
#: Seconds for which a kernel's start waits until the size of its project is known.
CHECK = 5.0
AUTO, OFF = "auto", "off"


def project_sync(chosen: str) -> str:
    """What is copied to the host: "auto" (the notebook's project), "off", or a folder.

    chosen: for this kernel; "": as ``JUPYTER_TPU_PROJECT_SYNC`` says, else "auto".
    """
    return chosen or os.environ.get("JUPYTER_TPU_PROJECT_SYNC") or AUTO


class KernelProject:
    """Of one kernel, over all restarts. Lives on the core loop.

    Parameters
    ----------
    host: the link to the kernel's host.
    notebook_folder: where a local kernel would start.
    chosen: as :func:`project_sync` takes it.
    forward: sends a message to the kernel.
    say: adds a line to the output of a request, which is given by its header.
    """

    def __init__(
        self,
        host: MirrorHost,
        notebook_folder: str,
        chosen: str,
        forward: Callable[[int, list[bytes], bytes], None],
        say: Callable[[str, bytes], None],
    ) -> None:
        self._host = host
        self._notebook_folder = Path(notebook_folder)
        self._sync = project_sync(chosen)
        self._forward = forward
        self._say = say
        self._folder: str | None = None
        self._used: tuple[Mirror, MirrorNews] | None = None
        self._refusal = ""  # why there is no mirror, until a cell has said so
        self._held: deque[tuple[int, list[bytes], bytes]] = deque()
        self._sending: asyncio.Task[None] | None = None

    async def open(self) -> str | None:
        """Begins to copy the project. Returns the notebook's folder on the host; None if the
        project is not copied.
        """
        if self._used is None and self._sync != OFF:
            try:
                async with asyncio.timeout(CHECK):
                    location = await asyncio.to_thread(self._locate)
            except TimeoutError:
                self._refuse(f"reading {self._notebook_folder} took more than {CHECK:g} s.")
            except TPUError as error:
                self._refuse(str(error))
            else:
                self._used = default_mirrors().acquire(self._host, location)
                remote = self._used[0].remote
                self._folder = f"{remote}/{location.below}" if location.below else remote
        return self._folder

    async def close(self) -> None:
        """The kernel has ended, or this process leaves it. What was held is not sent."""
        self.drop_held()
        used, self._used, self._folder = self._used, None, None
        if used is not None:
            await default_mirrors().release(used[0])

    def drop_held(self) -> None:
        """The kernel restarts."""
        self._held.clear()
        if self._sending is not None:
            self._sending.cancel()

    def send(self, channel: int, parts: list[bytes], header: bytes) -> None:
        """Forwards a client's message; a cell when the host has what is here, and what follows it
        on its channel after it.
        """
        runs = channel == SHELL and b'"execute_request"' in header
        if channel != SHELL or not (self._held or (runs and (self._used or self._refusal))):
            self._forward(channel, parts, header)
            return
        self._held.append((channel, parts, header))
        if self._sending is None or self._sending.done():
            self._sending = asyncio.get_running_loop().create_task(self._send_held())

    async def _send_held(self) -> None:
        while self._held:
            header = self._held[0][2]
            if b'"execute_request"' in header:
                try:
                    for line in await self._news():
                        self._say(f"[{line}]\n", header)
                except Exception:  # a bug here must not keep cells from running
                    log.exception("The project of %s", self._notebook_folder)
            self._forward(*self._held.popleft())

    async def _news(self) -> list[str]:
        """Waits until the host has what is here, and returns what the user has to know."""
        if self._used is None:
            refusal, self._refusal = self._refusal, ""
            return [refusal] if refusal else []
        mirror, news = self._used
        return news.lines(await mirror.catch_up(HOLD))

    def _locate(self) -> ProjectLocation:
        if self._sync == AUTO:
            location = find_project(self._notebook_folder)
        else:
            folder = Path(self._sync).expanduser().resolve()
            location = project_at(folder, self._notebook_folder.resolve())
        default_mirrors().check_size(location.folder)
        return location

    def _refuse(self, why: str) -> None:
        """Said in the first cell, and once for this folder and host."""
        line = f"The notebook's files are not copied to {self._host.host}: {why}"
        log.info(line)
        told = default_mirrors().told(self._host.place, str(self._notebook_folder))
        self._refusal = line if told.is_new(line) else ""

"""Keeps the project of a kernel's notebook on the kernel's host up to date before each cell."""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import TPUError
from ..files.sync import (
    Mirror,
    MirrorHost,
    MirrorNews,
    ProjectLocation,
    default_mirrors,
    find_project,
    project_at,
)
from ..on_host.agent.protocol import messages
from ..on_host.agent.protocol.events import SHELL

log = logging.getLogger(__name__)

#: Seconds after which a cell that waits for what was changed here says so, and after which it runs
#: without, while the host can be reached.
NOTICE_SECONDS, HOLD_SECONDS = 10.0, 120.0
#: Seconds for which a kernel's start waits until the size of its project is known.
SIZE_CHECK_SECONDS = 20.0
AUTO, OFF = "auto", "off"
#: A value of the variable: "auto" where the client of a kernel names the notebook's folder.
NAMED = "named"

#: The channel, parts and header of a client's message.
HeldMessage = tuple[int, list[bytes], bytes]
#: Replies to cells that the kernel did not get.
_WHY = "The cell was interrupted before it began. It waited for the project's files."
_INTERRUPTED = {
    "status": "error",
    "execution_count": None,
    "ename": "KeyboardInterrupt",
    "evalue": _WHY,
    "traceback": [f"\x1b[0;31mKeyboardInterrupt\x1b[0m: {_WHY}"],
}
_ABORTED = {"status": "aborted"}
#: What Python says of a module that does not exist.
_NO_MODULE = re.compile(r"No module named '([\w.]{1,200})'")
_NO_NAME = re.compile(r"cannot import name '(\w{1,200})' from '([\w.]{1,200})'")


def project_sync(chosen: str, *, named: bool = False) -> str:
    """What is copied to the host: "auto" (the notebook's project), "off", or a folder.

    chosen: for this kernel; "": as ``JUPYTER_TPU_PROJECT_SYNC`` says, else "auto".
    named: whether the kernel's client has named the notebook's folder.
    """
    sync = chosen or os.environ.get("JUPYTER_TPU_PROJECT_SYNC") or AUTO
    return (AUTO if named else OFF) if sync == NAMED else sync


class KernelProject:
    """The project of one kernel, over all restarts. Lives on the core loop.

    Parameters
    ----------
    host: the link to the kernel's host.
    notebook_folder: where a local kernel would start.
    chosen: as :func:`project_sync` takes it.
    forward: sends a message to the kernel.
    add_output: adds a line to the output of a request, which is given by its header.
    end_cell: answers a cell's request with the content of an execute_reply.
    """

    def __init__(
        self,
        host: MirrorHost,
        notebook_folder: str,
        chosen: str,
        forward: Callable[[int, list[bytes], bytes], None],
        add_output: Callable[[str, bytes], None],
        end_cell: Callable[[list[bytes], Mapping[str, Any]], None],
    ) -> None:
        self._host = host
        self._notebook_folder = Path(notebook_folder)
        self._sync = project_sync(chosen)
        self._forward = forward
        self._add_output = add_output
        self._end_cell = end_cell
        self._folder: str | None = None
        self._below = ""  # the notebook's folder in the project
        self._used: tuple[Mirror, MirrorNews] | None = None
        self._refusal = ""  # why there is no mirror, until a cell has said so
        self._held: deque[HeldMessage] = deque()
        self._sending: asyncio.Task[None] | None = None

    async def open(self) -> str | None:
        """Begins to copy the project. Returns the notebook's folder on the host; None if the
        project is not copied.
        """
        if self._used is None and self._sync != OFF:
            try:
                async with asyncio.timeout(SIZE_CHECK_SECONDS):
                    location = await asyncio.to_thread(self._locate)
            except TimeoutError:
                self._refuse(
                    f"reading {self._notebook_folder} took more than {SIZE_CHECK_SECONDS:g} s."
                )
            except TPUError as error:
                self._refuse(str(error))
            else:
                self._used = default_mirrors().acquire(self._host, location)
                remote, self._below = self._used[0].remote, location.below
                self._folder = f"{remote}/{location.below}" if location.below else remote
        return self._folder

    async def close(self) -> None:
        """The kernel has ended, or this process leaves it. What was held is not sent; the next
        process may do so.
        """
        self._held.clear()
        self._stop_sending()
        used, self._used, self._folder = self._used, None, None
        if used is not None:
            await default_mirrors().release(used[0])

    def abort_held(self) -> None:
        """The kernel ends, or restarts. The clients learn that what was held does not run."""
        self._stop_sending()
        held, self._held = self._held, deque()
        for message in held:
            if _is_cell(message):
                self._end_cell(message[1], _ABORTED)

    def interrupt(self, busy: bool) -> bool:
        """Ends the held cell that is next as an interrupted one, and those behind it as ipykernel
        does after an error. Returns whether there was one.

        busy: the kernel runs another cell, which is the one that is interrupted.
        """
        cells = [message for message in self._held if _is_cell(message)]
        if not cells:
            return False
        self._stop_sending()
        first = cells[0][1]
        ended = cells if busy or _stops_on_error(first) else cells[:1]
        self._held = deque(message for message in self._held if message not in ended)
        for _, parts, _ in ended:
            self._end_cell(parts, _ABORTED if busy or parts is not first else _INTERRUPTED)
        self._start_sending()
        return True

    def send(self, channel: int, parts: list[bytes], header: bytes) -> None:
        """Forwards a client's message; a cell when the host has what is here, and what follows it
        on its channel after it.
        """
        message = channel, parts, header
        needs_project = (self._used or self._refusal) and _is_cell(message)
        if channel != SHELL or not (self._held or needs_project):
            self._forward(*message)
            return
        self._held.append(message)
        self._start_sending()

    def explain(self, parts: list[bytes]) -> None:
        """Says under an error of a cell that the module which it lacks was not copied.

        parts: of a message of the kernel. A few files are looked at before the client gets it: what
        comes after a cell's end would not be shown.
        """
        if self._used is None or b'"error"' not in parts[_at(parts, messages.HEADER)]:
            return
        try:
            said = str(messages.decode_part(parts, messages.CONTENT).get("evalue"))
        except ValueError:
            return
        no_module, no_name = _NO_MODULE.match(said), _NO_NAME.match(said)
        module = no_module[1] if no_module else f"{no_name[2]}.{no_name[1]}" if no_name else ""
        if module and (line := self._used[1].missing_module(module, self._below)):
            self._add_output(f"[{line}]\n", parts[_at(parts, messages.PARENT)])

    def _start_sending(self) -> None:
        if self._held and (self._sending is None or self._sending.done()):
            self._sending = asyncio.get_running_loop().create_task(self._send_held())

    def _stop_sending(self) -> None:
        if self._sending is not None:
            self._sending.cancel()
            self._sending = None

    async def _send_held(self) -> None:
        while self._held:
            header = self._held[0][2]
            if _is_cell(self._held[0]):
                try:
                    await self._wait_for_project(header)
                except Exception:  # a bug here must not keep cells from running
                    log.exception("The project of %s", self._notebook_folder)
            self._forward(*self._held.popleft())

    async def _wait_for_project(self, header: bytes) -> None:
        """Waits until the host has what is here, and says in a cell what its user has to know."""
        if self._used is None:
            refusal, self._refusal = self._refusal, ""
            if refusal:
                self._add_output(f"[{refusal}]\n", header)
            return
        mirror, news = self._used
        current = await mirror.catch_up(NOTICE_SECONDS)
        if not current:
            self._add_output(f"[{news.waiting}]\n", header)
            current = await mirror.catch_up(HOLD_SECONDS - NOTICE_SECONDS)
        for line in news.lines(current):
            self._add_output(f"[{line}]\n", header)

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
        history = default_mirrors().history(self._host.host_id, str(self._notebook_folder))
        self._refusal = line if history.is_new(line) else ""


def _at(parts: list[bytes], which: int) -> int:
    return messages.find_delimiter(parts) + which


def _is_cell(message: HeldMessage) -> bool:
    return message[0] == SHELL and b'"execute_request"' in message[2]


def _stops_on_error(request: list[bytes]) -> bool:
    """As ipykernel decides whether the cells behind it are aborted."""
    try:
        content = messages.decode_part(request, messages.CONTENT)
    except ValueError:
        return True
    return bool(content.get("stop_on_error", True)) and not content.get("silent")

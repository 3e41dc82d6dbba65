"""Google's announcements that it is about to stop this host: what they say, and how they are
followed on the metadata server, without polling.

Its answer to ``wait_for_change`` comes when there is something new. Source:
cloud.google.com/compute/docs/metadata/querying-metadata#waitforchange.
"""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import time
from typing import Any, Callable, Dict, Optional, Tuple

from ..protocol.metadata_server import FLAVOR, metadata_url
from ..serving.http_check import split_answer

MAINTENANCE, PREEMPTION = "maintenance", "preemption"
#: The keys of the metadata server that announce each, the graver one first, and what they say while
#: nothing is announced.
KEYS = ("preempted", PREEMPTION, ("FALSE", "")), ("maintenance-event", MAINTENANCE, ("NONE", ""))


class Announced:
    """What was announced, from the values of the metadata server in any order."""

    def __init__(self) -> None:
        self._values: Dict[str, str] = {}
        #: ``kind`` and since when it is known (``noticed``); None while nothing is announced.
        self.interruption: Optional[Dict[str, Any]] = None

    def note(self, key: str, value: str, now: str) -> bool:
        """Takes the *value* of one of the KEYS; returns whether something else is announced.

        What is announced twice is known since the first time.
        """
        self._values[key] = value.strip().upper()
        kinds = [kind for name, kind, quiet in KEYS if self._values.get(name, "") not in quiet]
        kind = kinds[0] if kinds else None
        known = self.interruption and self.interruption["kind"]
        if kind == known:
            return False
        self.interruption = None if kind is None else {"kind": kind, "noticed": now}
        return True


#: Most seconds that the server waits, and how much longer its answer may take.
WAIT_SECONDS, ANSWER_GRACE = 300, 30.0
#: Seconds until the next attempt, which double: a machine may have no metadata server at all.
RETRY_SECONDS, LONGEST_RETRY_SECONDS = 1.0, 600.0
#: Bytes of a value that are read, and of an answer.
MOST_BYTES, MOST_ANSWER_BYTES = 1000, 16 << 10


def follow_announcements(noted: Callable[[str, str], None]) -> None:
    """Calls *noted*, on the running loop, with each key and its value, now and when it changes.

    By threads that end with this process: no one can end a wait for the name server.
    """
    loop = asyncio.get_running_loop()
    for key, _, _ in KEYS:
        name = "metadata " + key
        threading.Thread(target=_follow, args=(key, loop, noted), name=name, daemon=True).start()


def _follow(key: str, loop: asyncio.AbstractEventLoop, noted: Callable[[str, str], None]) -> None:
    etag, pause = "", RETRY_SECONDS
    while not loop.is_closed():
        try:
            value, etag = _ask(key, etag)
        except (OSError, ValueError):
            time.sleep(pause)
            etag, pause = "", min(2 * pause, LONGEST_RETRY_SECONDS)
            continue
        pause = RETRY_SECONDS
        try:
            loop.call_soon_threadsafe(noted, key, value)
        except RuntimeError:
            return  # the loop is closed
        time.sleep(
            RETRY_SECONDS if etag else LONGEST_RETRY_SECONDS
        )  # one that does not wait is not asked all the time


def _ask(key: str, etag: str) -> Tuple[str, str]:
    """The value and its tag; once it has another tag than *etag* ("": now), or after a while."""
    path = "instance/" + key
    if etag:
        path += "?wait_for_change=true&timeout_sec=%d&last_etag=%s" % (WAIT_SECONDS, etag)
    head, value = _get(metadata_url(path))
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): text.strip() for name, _, text in (x.partition(":") for x in lines)}
    if status.split(" ")[1:2] != ["200"] or FLAVOR.lower() not in head.decode("latin-1").lower():
        raise ValueError("this is not the metadata server")
    return value[:MOST_BYTES].decode(errors="replace"), headers.get("etag", "")


def _get(url: str) -> Tuple[bytes, bytes]:
    """The head and the content of an answer: `http.client` needs 2 MB of memory."""
    place, _, path = url.partition("://")[2].partition("/")
    name, _, port = place.partition(":")
    request = "GET /%s HTTP/1.1\r\nHost: %s\r\n%s\r\nConnection: close\r\n\r\n"
    timeout, answer = WAIT_SECONDS + ANSWER_GRACE, bytearray()
    address: Any = name.encode(), int(port or 80)  # as bytes, which are not looked up by IDNA
    with socket.create_connection(address, timeout) as connection:
        connection.sendall((request % (path, place, FLAVOR)).encode())
        while len(answer) < MOST_ANSWER_BYTES and not _is_whole(bytes(answer)):
            data = connection.recv(MOST_ANSWER_BYTES)
            if not data:
                break
            answer += data
    return split_answer(bytes(answer))


def _is_whole(answer: bytes) -> bool:
    """Whether all of the length that it names is there: the connection may stay open."""
    head, end, content = answer.partition(b"\r\n\r\n")
    length = re.search(rb"\r\ncontent-length: *(\d+)", head, re.IGNORECASE)
    return bool(end and length and len(content) >= int(length[1]))

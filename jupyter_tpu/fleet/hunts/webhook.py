"""Tells a URL that a hunt has ended, for people who are elsewhere.

The URL is a secret (whoever has it can write to someone's chat): it comes from the environment
variable JUPYTER_TPU_NOTIFY_URL, and is in no log, error, file or command line of ours.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

log = logging.getLogger(__name__)

VARIABLE = "JUPYTER_TPU_NOTIFY_URL"
#: Pauses between attempts to reach it, and how long one may take; seconds.
PAUSE_SECONDS = (2.0, 10.0, 60.0, 300.0)
ATTEMPT_SECONDS = 15.0


def configured_url() -> str:
    """The URL, or "" if there is none that may be used: https, or http on this computer."""
    url = os.environ.get(VARIABLE, "")
    parts = urlsplit(url)
    local = parts.hostname in ("localhost", "127.0.0.1", "::1")
    if url and parts.scheme != "https" and not (parts.scheme == "http" and local):
        log.warning("%s must begin with https://. No notification is sent.", VARIABLE)
        return ""
    return url


async def notify(url: str, body: Mapping[str, object]) -> bool:
    """Posts *body* as JSON; whether it was accepted. Tries again for some minutes."""
    import aiohttp

    limit = aiohttp.ClientTimeout(total=ATTEMPT_SECONDS)
    for pause in (*PAUSE_SECONDS, None):
        try:
            async with (
                aiohttp.ClientSession(timeout=limit) as session,
                session.post(url, json=body, allow_redirects=False) as answer,
            ):
                if answer.status < 300:
                    return True
                why = f"status {answer.status}"
                if answer.status < 500 and answer.status not in (408, 429):
                    break  # it will not accept it later either
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
            why = type(error).__name__  # its text may have the URL
        if pause is not None:
            await asyncio.sleep(pause)
    log.warning("The URL in %s did not accept the end of a hunt: %s", VARIABLE, why)
    return False

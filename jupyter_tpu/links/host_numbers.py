"""Asks a host for Google's number of it, which it has in its metadata."""

from __future__ import annotations

import re

from ..errors import TPUError
from ..ssh import Connection

_LIMIT = 20.0  # seconds
_ASK = """\
host=${GCE_METADATA_HOST:-metadata.google.internal}
url=http://$host/computeMetadata/v1/instance/attributes/agent-worker-number
curl -sf -m 8 -H 'Metadata-Flavor: Google' "$url" || wget -qO- -T 8 --header='Metadata-Flavor: Google' "$url"
"""


async def read_host_number(connection: Connection) -> int | None:
    """The number; None for a machine that is not of a TPU, or does not say it."""
    try:
        done = await connection.run(
            ["sh", "-c", _ASK], timeout=_LIMIT, max_output=1 << 10, check=False
        )
    except TPUError:
        return None
    said = done.stdout.strip()
    return int(said) if re.fullmatch(r"\d{1,4}", said, re.ASCII) else None

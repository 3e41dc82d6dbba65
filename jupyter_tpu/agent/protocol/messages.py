"""As much of Jupyter's wire format as a keeper needs, with the standard library alone.

A message is ``[identities…, <IDS|MSG>, signature, header, parent header, metadata, content,
buffers…]``. Messages pass through the keeper as they are; it reads a header now and then, and
signs the few requests that are its own.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from datetime import datetime, timezone
from typing import Any, Dict, List, Sequence, Union

DELIMITER = b"<IDS|MSG>"
#: Where the header is, counted from the delimiter; the parent header and content follow.
HEADER, PARENT, METADATA, CONTENT = 2, 3, 4, 5


def now() -> str:
    """This moment in UTC, RFC 3339."""
    return datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")


def find_delimiter(parts: Sequence[bytes]) -> int:
    """Where the identities end; raises ValueError for what is no Jupyter message."""
    for index, part in enumerate(parts):
        if part == DELIMITER:
            if len(parts) < index + 6:
                break
            return index
    raise ValueError("not a Jupyter message")


def decode_part(parts: Sequence[bytes], which: int) -> Dict[str, Any]:
    """The header, parent header or content, read."""
    found = json.loads(parts[find_delimiter(parts) + which])
    if not isinstance(found, dict):
        raise ValueError("not a Jupyter message")
    return found


class MessageSigner:
    """Writes signed messages under a session of its own.

    Parameters
    ----------
    key: the kernel's session key; "": messages are not signed.
    name: who it is, in the headers' ``username``.
    """

    def __init__(self, key: str, name: str) -> None:
        self.key = key
        self._name = name
        self.session = os.urandom(16).hex()

    def message(
        self,
        kind: str,
        content: Union[Dict[str, Any], bytes],
        *,
        parent: bytes = b"{}",
        idents: Sequence[bytes] = (),
    ) -> List[bytes]:
        """A message of type *kind*; *parent* is the header it answers, as it came.

        *content* may be bytes: JSON already.
        """
        header = {
            "msg_id": os.urandom(16).hex(),
            "msg_type": kind,
            "username": self._name,
            "session": self.session,
            "date": now(),
            "version": "5.4",
        }
        if not isinstance(content, bytes):
            content = json.dumps(content).encode()
        body = [json.dumps(header).encode(), parent, b"{}", content]
        return [*idents, DELIMITER, self._sign(body), *body]

    def with_content(self, parts: Sequence[bytes], at: int, content: bytes) -> List[bytes]:
        """*parts*, a message whose delimiter is *at*, with other *content*."""
        body = [*parts[at + HEADER : at + CONTENT], content]
        return [*parts[:at], DELIMITER, self._sign(body), *body, *parts[at + CONTENT + 1 :]]

    def is_signed(self, parts: Sequence[bytes]) -> bool:
        """Whether *parts*, a message, has the signature that this key gives it."""
        at = find_delimiter(parts)
        return hmac.compare_digest(parts[at + 1], self._sign(parts[at + HEADER : at + CONTENT + 1]))

    def _sign(self, body: Sequence[bytes]) -> bytes:
        if not self.key:
            return b""
        return hmac.new(self.key.encode(), b"".join(body), hashlib.sha256).hexdigest().encode()

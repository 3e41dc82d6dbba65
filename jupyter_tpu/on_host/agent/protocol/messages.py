"""The part of Jupyter's wire format that a keeper needs, with the standard library alone.

A message is ``[identities…, <IDS|MSG>, signature, header, parent header, metadata, content,
buffers…]``. Messages pass through the keeper unchanged; it reads some headers, and signs the few
requests of its own.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from typing import Any, Dict, List, Sequence, Union

from .dates import now as now

DELIMITER = b"<IDS|MSG>"
#: Offsets from the delimiter.
HEADER, PARENT, METADATA, CONTENT = 2, 3, 4, 5


def find_delimiter(parts: Sequence[bytes]) -> int:
    """The index of the delimiter; raises ValueError if this is not a Jupyter message."""
    for index, part in enumerate(parts):
        if part == DELIMITER:
            if len(parts) < index + 6:
                break
            return index
    raise ValueError("not a Jupyter message")


def decode_part(parts: Sequence[bytes], which: int) -> Dict[str, Any]:
    """The header, parent header, metadata or content as a dict; raises ValueError."""
    loads = json.loads(parts[find_delimiter(parts) + which])
    if not isinstance(loads, dict):
        raise ValueError("not a Jupyter message")
    return loads


class MessageSigner:
    """Writes and checks signed messages, under a session of its own.

    Parameters
    ----------
    key: the kernel's session key; "" means that messages are not signed.
    name: the ``username`` in the headers.
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
        """A message of type *kind*; *parent* is the encoded header that it answers.

        *content* may be bytes of JSON.
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
        """Whether the message *parts* has the right signature for the key."""
        at = find_delimiter(parts)
        return hmac.compare_digest(parts[at + 1], self._sign(parts[at + HEADER : at + CONTENT + 1]))

    def _sign(self, body: Sequence[bytes]) -> bytes:
        if not self.key:
            return b""
        return hmac.new(self.key.encode(), b"".join(body), hashlib.sha256).hexdigest().encode()

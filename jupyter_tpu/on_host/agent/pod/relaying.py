"""Passing Jupyter messages on between a client and one host's kernel, which have separate keys."""

from __future__ import annotations

import json
from typing import Any, Dict, List, NamedTuple, Sequence

from ..protocol import messages


class Parsed(NamedTuple):
    """A message that was received. *content* and *metadata* stay encoded."""

    idents: List[bytes]
    header: bytes
    kind: str
    id: str
    parent: str  # the id of the message that it answers
    parts: List[bytes]
    at: int  # the delimiter's index

    @property
    def content(self) -> Dict[str, Any]:
        """Decoded; raises ValueError."""
        return _decode(self.parts[self.at + messages.CONTENT])

    @property
    def fields(self) -> Dict[str, Any]:
        """The header, decoded; raises ValueError."""
        return _decode(self.header)


def parse(parts: List[bytes]) -> Parsed:
    """Raises ValueError for what is no Jupyter message."""
    at = messages.find_delimiter(parts)
    header = _decode(parts[at + messages.HEADER])
    parent = _decode(parts[at + messages.PARENT])
    return Parsed(
        idents=list(parts[:at]),
        header=parts[at + messages.HEADER],
        kind=str(header.get("msg_type", "")),
        id=str(header.get("msg_id", "")),
        parent=str(parent.get("msg_id", "")),
        parts=parts,
        at=at,
    )


def _decode(part: bytes) -> Dict[str, Any]:
    try:
        decoded = json.loads(part)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(decoded, dict):
        raise ValueError("not a Jupyter message")
    return decoded


class MessageRelay:
    """Signs again what is passed on.

    Parameters
    ----------
    client: signs what clients get; its session is the pod kernel's.
    hosts: signs what the hosts' kernels get.
    """

    def __init__(self, client: messages.MessageSigner, hosts: messages.MessageSigner) -> None:
        self._client = client
        self._hosts = hosts

    def to_host(self, message: Parsed, id: str = "") -> List[bytes]:
        """A client's message for a host's kernel, with another *id*."""
        header = json.dumps({**message.fields, "msg_id": id}).encode() if id else message.header
        rest = message.parts[message.at + messages.PARENT :]
        return _signed(self._hosts, [], [header, *rest])

    def to_client(self, message: Parsed, idents: Sequence[bytes], parent: bytes) -> List[bytes]:
        """A host's message for a client, with another parent. All have one session: JupyterLab
        drops pending messages when one of another session arrives.
        """
        header = {**message.fields, "session": self._client.session}
        rest = message.parts[message.at + messages.METADATA :]
        return _signed(self._client, idents, [json.dumps(header).encode(), parent, *rest])


def _signed(
    signer: messages.MessageSigner, idents: Sequence[bytes], body: Sequence[bytes]
) -> List[bytes]:
    """body: header, parent, metadata, content, and buffers."""
    parts = [*idents, messages.DELIMITER, b"", *body]
    at = len(idents)
    return signer.with_content(parts, at, body[3])

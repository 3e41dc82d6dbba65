"""Widgets of a cell that ran on a host: its comms, opened again here with the same IDs.

The notebook's page talks only to the local kernel. Each comm of the remote kernel has a twin here;
messages to one are forwarded to the other.
"""

from __future__ import annotations

from typing import Any

from .remote import RemoteKernel


class Comms:
    """The twins of one remote kernel's comms."""

    def __init__(self, kernel: RemoteKernel) -> None:
        self._kernel = kernel
        self._twins: dict[str, Any] = {}
        kernel.on_comm = self.from_remote

    def from_remote(self, message: dict[str, Any]) -> None:
        """comm_open, comm_msg and comm_close of the remote kernel."""
        kind, content = message["msg_type"], message["content"]
        twin = self._twins.get(content["comm_id"])
        if kind == "comm_open":
            self._open(message)
        elif twin is not None and kind == "comm_msg":
            twin.send(content["data"], message["metadata"], message.get("buffers"))
        elif twin is not None:
            del self._twins[content["comm_id"]]
            twin.close(content["data"])

    def close(self) -> None:
        """Closes all twins, so that their widgets show that the kernel has ended."""
        while self._twins:
            self._twins.popitem()[1].close()

    def _open(self, message: dict[str, Any]) -> None:
        from comm import create_comm

        content = message["content"]
        id = content["comm_id"]
        twin = create_comm(
            target_name=content["target_name"],
            data=content["data"],
            metadata=message["metadata"],
            buffers=message.get("buffers"),
            comm_id=id,
        )
        self._twins[id] = twin
        twin.on_msg(lambda message: self._to_remote("comm_msg", id, message))
        twin.on_close(lambda message: self._to_remote("comm_close", id, message))

    def _to_remote(self, kind: str, id: str, message: dict[str, Any]) -> None:
        if id in self._twins:  # else the remote kernel closed it
            content = {"comm_id": id, "data": message["content"].get("data", {})}
            self._kernel.send_comm(kind, content, message.get("buffers") or [])

"""What the client of a kernel can ask the kernel's keeper, ahead of all waiting messages.

A keeper can be older than its client. The event "refused" answers a request that it does not know;
the first keepers ignore it.
"""

from __future__ import annotations

from .declarations import ProtocolRequest, find_requests


class SignalKernel(ProtocolRequest[None], op="signal"):
    """Sends a signal to the kernel and its child processes."""

    signal: int


class EndKernel(ProtocolRequest[None], op="end"):
    """Ends the kernel; *now*: without asking it first."""

    now: bool = False


class RenameNotebook(ProtocolRequest[None], op="rename"):
    """The notebook has another path, which the host shows to others."""

    notebook: str


#: By their ops.
KEEPER_REQUESTS = find_requests(vars())

"""Checks the host and port of a request."""

from __future__ import annotations

from ...cloud import Node
from ...errors import InvalidInput
from ...links import no_such_host


def check_host_port(node: Node, port: int, host: int) -> None:
    """Raises INVALID for a wrong port, or for a host that the TPU does not have."""
    check_port(port, "on the host")
    check_host(node, host)


def check_host(node: Node, host: int) -> None:
    """Raises INVALID for a host that the TPU does not have."""
    if not 0 <= host < len(node.endpoints):
        raise no_such_host(node.name.node, host, len(node.endpoints))


def check_port(port: int, where: str) -> None:
    if not 1 <= port <= 65535:
        raise InvalidInput(f"{port} is not a port {where}.", "Ports are 1 to 65535.")

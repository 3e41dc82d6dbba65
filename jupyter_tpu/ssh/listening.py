"""Listening on this machine's loopback addresses, on both where there are two."""

from __future__ import annotations

import errno
import socket

from ..errors import InvalidInput, Reason, TPUError

#: Addresses that only this machine can reach.
LOOPBACK = ("127.0.0.1", "::1")


class PortInUse(TPUError):
    """Another program of this machine listens on the port."""


def listening_sockets(port: int, address: str = "127.0.0.1") -> list[socket.socket]:
    """Sockets that listen on *port* (0: any free one), on both loopbacks where *address* is one.

    Raises :class:`PortInUse` (CONFLICT), PERMISSION for a port that only the system may use,
    INVALID for an address that is not this machine's.
    """
    first = None
    try:
        first = _bound(address, port)
        if address != "127.0.0.1" or not _has_ipv6_loopback():
            return [first]
        for _ in range(20):
            try:
                return [first, _bound("::1", first.getsockname()[1])]
            except OSError as error:
                if port or error.errno != errno.EADDRINUSE:
                    raise
            other = _bound(address, 0)  # taken before the last one is given back: another number
            first.close()
            first = other
        raise OSError(errno.EADDRINUSE, "no port is free on both loopback addresses")
    except (OSError, OverflowError) as error:
        if first is not None:
            first.close()
        raise listen_error(error, port, address) from error


def _bound(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, port))
        listener.listen(128)  # so that a port that is taken shows now
        listener.setblocking(False)
    except BaseException:
        listener.close()
        raise
    return listener


def _has_ipv6_loopback() -> bool:
    if not socket.has_ipv6:
        return False
    try:
        _bound("::1", 0).close()
    except OSError:
        return False
    return True


def listen_error(error: Exception, port: int, address: str) -> TPUError:
    """The error to raise when *address* and *port* can't be listened on."""
    number = getattr(error, "errno", None)
    if number == errno.EADDRINUSE:
        return PortInUse(
            f"Port {port} on this machine is in use by another program.",
            Reason.CONFLICT,
            "Choose another local port, or stop that program.",
        )
    if number in (errno.EACCES, errno.EPERM):
        return TPUError(
            f"You are not allowed to use port {port} on this machine.",
            Reason.PERMISSION,
            "Ports below 1024 are reserved for the system. Choose a higher one.",
        )
    return InvalidInput(
        f"This machine can't listen on {address} port {port}: "
        f"{getattr(error, 'strerror', None) or error}.",
        "Choose another local port, or leave the address at 127.0.0.1.",
    )

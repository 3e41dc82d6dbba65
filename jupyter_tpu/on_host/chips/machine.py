"""What a machine is that is attached: its TPU chips, and its address."""

import contextlib
import os
import socket

from ..agent.protocol.chips import chips


def describe_machine():
    return {"chips": chips(), "address": own_address()}


def own_address():
    """The IPv4 address at which SSH reached it: other hosts are likely to reach it there, too.

    If that is the loopback interface, as through a tunnel: the one from which it would reach
    others; "" without a route. Nothing is sent.
    """
    reached = os.environ.get("SSH_CONNECTION", "").split()[2:3]
    if reached and ":" not in reached[0] and reached != ["127.0.0.1"]:
        return reached[0]
    with contextlib.suppress(OSError), contextlib.closing(
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ) as probe:
        probe.connect(("192.0.2.1", 9))  # an address for documentation: RFC 5737
        return probe.getsockname()[0]
    return ""

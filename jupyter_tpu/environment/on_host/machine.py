"""What a machine is that is attached: its TPU chips, and its address."""

import contextlib
import socket

from jupyter_tpu.agent.protocol.chips import chips

from .calls import serve


def describe_machine():
    return {"chips": chips(), "address": own_address()}


def own_address():
    """The one from which it would reach others; "" without a route. Nothing is sent."""
    with contextlib.suppress(OSError), contextlib.closing(
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ) as probe:
        probe.connect(("192.0.2.1", 9))  # an address for documentation: RFC 5737
        return probe.getsockname()[0]
    return ""


def main():
    serve({"describe_machine": describe_machine})

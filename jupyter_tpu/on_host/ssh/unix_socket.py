"""Runs on a host whose sshd does not forward to Unix sockets: carries bytes between its standard
streams and the socket that its argument names. It writes `CONNECTED` first, or nothing where no
server listens.
"""

import os
import socket
import sys
import threading

from .stdio import copy

CONNECTED = b"+"
CONNECT_SECONDS = 20.0  # seconds, for a server that accepts nobody


def main():
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(CONNECT_SECONDS)
    try:
        connection.connect(sys.argv[1])
    except OSError:
        return
    connection.settimeout(None)
    os.write(1, CONNECTED)
    descriptor = connection.fileno()

    def send():
        copy(0, descriptor)
        os._exit(0)  # the client has left

    threading.Thread(target=send, daemon=True).start()
    copy(descriptor, 1)
    os._exit(0)

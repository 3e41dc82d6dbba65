"""What the keepers of runs and jobs have in common: a socket, those who ask there, and one loop.

It imports as little as possible, since each run waits for it; and so a keeper needs little memory.
"""

import _signal
import _socket
import os
import select
import time

NEVER = float("inf")
#: Bytes that are read at once.
PIECE_BYTES = 64 << 10


def claimed_socket(path):
    """A socket that only one keeper gets."""
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    before = os.umask(0o077)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.listen(8)
    return listener


class KeeperClient:
    """Somebody who asks, by a connection: where it is read, and where it is written."""

    def __init__(self, source, target):
        self.source, self.target = source, target
        self.received, self.unsent = bytearray(), bytearray()
        self.answer_at = NEVER  # when a question for output is answered at the latest
        for descriptor in (source, target):
            os.set_blocking(descriptor, False)

    def receive(self):
        """False if the other side has left."""
        try:
            data = os.read(self.source, PIECE_BYTES)
        except OSError:
            return False
        self.received += data
        return bool(data)

    def send(self):
        """Sends what there is room for; False if the other side has left."""
        try:
            del self.unsent[: os.write(self.target, self.unsent[:PIECE_BYTES])]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def close(self):
        for descriptor in {self.source, self.target}:
            os.close(descriptor)


class CommandKeeper:
    """Serves those who ask about a command. A subclass has the command, and knows the questions."""

    def __init__(self, listener):
        self.peers: "list" = []  # of `KeeperClient`
        self._listener = listener
        self._wake = os.pipe()
        for pipe in self._wake:
            os.set_blocking(pipe, False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.set_wakeup_fd(self._wake[1])

    def advance(self, now):
        """What time and ended processes bring; returns when it has to be called again at the
        latest, or None at the end.
        """
        raise NotImplementedError

    def pipes(self):
        """A function for each of the command's pipes that can be read or is to be written to."""
        raise NotImplementedError

    def ask(self, peer):
        """Carries out what *peer* asks for; False, or an error, if it asks for something else."""
        raise NotImplementedError

    def answer(self, peer, now):
        """Answers what can be answered; returns when something else can be at the latest."""
        raise NotImplementedError

    def add(self, peer):
        """Somebody has connected."""
        self.peers.append(peer)

    def serve(self):
        """Until the end."""
        while True:
            now = time.monotonic()
            due = self.advance(now)
            if due is None:
                return
            due = min(due, now + 30.0, *(self.answer(peer, now) for peer in self.peers))
            readers, writers = self.pipes()
            sources = [peer.source for peer in self.peers]
            targets = [peer.target for peer in self.peers if peer.unsent]
            readable, writable, _ = select.select(
                [*readers, *sources, self._listener, self._wake[0]],
                [*writers, *targets],
                [],
                max(0.0, due - now),
            )
            if self._wake[0] in readable:
                os.read(self._wake[0], 4096)
            for functions, ready in ((readers, readable), (writers, writable)):
                for pipe, function in functions.items():
                    if pipe in ready:
                        function()
            for peer in list(self.peers):
                try:
                    there = (peer.target not in writable or peer.send()) and (
                        peer.source not in readable or (peer.receive() and self.ask(peer))
                    )
                except (ValueError, LookupError, TypeError):
                    there = False  # it asks for what can't be
                if not there:
                    self.peers.remove(peer)
                    peer.close()
            if self._listener in readable:
                descriptor = self._listener._accept()[0]
                self.add(KeeperClient(descriptor, descriptor))

"""The keeper of a run: the process next to one command that somebody watches. It owns the command
and its output until they are read.

The agent starts one for each run. On a host without an agent the client does, over SSH: that takes
a third of the time that starting an agent takes. Who starts it speaks to it by its standard input
and output; the client goes on by its socket, and does so again after each loss of the link. So a
run needs no agent. When nobody has been connected for `ABANDONED` seconds, the keeper ends it.

Its input begins with a line, the length of the order, and the order: words with a NUL between them.
It answers ``running PID SECONDS SOCKET``, or ``refused WHAT ERRNO WHY``; if another keeper has the
run, ``refused run ERRNO SOCKET``. A connection to the socket begins with ``running``, too; 0 is the
process id of a command that has ended. Then the other side asks::

    read START SECONDS         acknowledges output before START. After so many seconds, or once
                               there is more: ``output STREAM LENGTH`` and the data, several times,
                               and ``next``, or with the last of it ``ended CODE SIGNAL CAUSE
                               SECONDS``, in which a number that is not known is -1
    write START LENGTH CLOSE   and the data: input, of which the command has START bytes.
                               ``reads 1`` once it was taken; ``reads 0``: it takes no more
    stop                       ends the command; ``stopped`` once it has ended
    kill                       ends it at once
    forget                     the end is known: the keeper ends, too

Output that is not acknowledged is kept up to `BUFFER` bytes; then the command waits.

It imports as little as possible, since each run waits for it.
"""

import _signal
import _socket
import os
import select
import sys
import time

from ..protocol.process_env import process_environment
from .run_command import ANSWER, NEVER, PIECE, Command

#: Seconds that more output is waited for once there is some.
GATHER = 0.02
#: Seconds without a connection after which the command is ended, and its end is forgotten.
ABANDONED = 300.0
LONGEST_SOCKET = 107


def socket_path(id):
    """The usual one; None if the run can't have it."""
    folder = os.path.join(os.path.expanduser("~"), ".jupyter-tpu", "run")
    path = os.path.join(folder, "run-%s.sock" % id)
    if len(os.fsencode(path)) > LONGEST_SOCKET:
        return None
    for directory in (os.path.dirname(folder), folder):
        if not os.path.isdir(directory):
            os.mkdir(directory, 0o700)
        stat_result = os.lstat(directory)
        if (
            os.path.islink(directory)
            or stat_result.st_uid != os.getuid()
            or stat_result.st_mode & 0o077
        ):
            return None
    return path


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


class Peer:
    """Somebody who asks, by a connection: where it is read, and where it is written."""

    def __init__(self, source, target):
        self.source, self.target = source, target
        self.received, self.unsent = bytearray(), bytearray()
        self.answer_at = NEVER  # when a question for output is answered at the latest
        self.writes = self.stops = 0  # questions that are not answered yet
        for descriptor in (source, target):
            os.set_blocking(descriptor, False)

    def receive(self):
        """False if the other side has left."""
        try:
            data = os.read(self.source, PIECE)
        except OSError:
            return False
        self.received += data
        return bool(data)

    def send(self):
        """Sends what there is room for; False if the other side has left."""
        try:
            del self.unsent[: os.write(self.target, self.unsent[:PIECE])]
        except BlockingIOError:
            pass
        except OSError:
            return False
        return True

    def close(self):
        for descriptor in {self.source, self.target}:
            os.close(descriptor)


class RunKeeper:
    """Serves all who ask about the command, until its end is known."""

    def __init__(self, command, listener, path, peer):
        self._command = command
        self._listener = listener
        self._path = path
        self._peers = [peer]
        self._connected = time.monotonic()  # when somebody was, the last time
        self._forgotten = False
        self._wake = os.pipe()
        for pipe in self._wake:
            os.set_blocking(pipe, False)
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.set_wakeup_fd(self._wake[1])
        peer.unsent += self._greeting()

    def _greeting(self):
        command = self._command
        pid = command.pid if command.code is None else 0
        seconds = time.monotonic() - command.begun
        return b"running %d %.3f %s\n" % (pid, seconds, os.fsencode(self._path))

    def run(self):
        command = self._command
        while True:
            now = time.monotonic()
            due = command.advance(now)
            if command.ended and self._forgotten:
                return
            if self._peers:
                self._connected = now
            elif now >= self._connected + ABANDONED:
                if command.ended:
                    return
                command.stop("abandoned")
                self._connected, due = now, now
            due = min(due, *(self._answer(peer, now) for peer in self._peers),
                      now + min(30.0, ABANDONED))  # fmt: skip
            output = (
                [] if command.full else [command.pipes[n] for n in (1, 2) if n in command.pipes]
            )
            targets = [peer.target for peer in self._peers if peer.unsent]
            if command.unwritten:
                targets.append(command.pipes[0])
            sources = [peer.source for peer in self._peers]
            readable, writable, _ = select.select(
                [*output, *sources, self._listener, self._wake[0]], targets, [], max(0.0, due - now)
            )
            if self._wake[0] in readable:
                os.read(self._wake[0], 4096)
            for number in (1, 2):
                if command.pipes.get(number) in readable:
                    command.read(number)
            if command.pipes.get(0) in writable:
                command.write()
            for peer in list(self._peers):
                try:
                    there = (peer.target not in writable or peer.send()) and (
                        peer.source not in readable or (peer.receive() and self._ask(peer))
                    )
                except (ValueError, IndexError):
                    there = False  # it asks for what can't be
                if not there:
                    self._peers.remove(peer)
                    peer.close()
            if self._listener in readable:
                descriptor = self._listener._accept()[0]
                self._peers.append(Peer(descriptor, descriptor))
                self._peers[-1].unsent += self._greeting()

    def _ask(self, peer):
        """Carries out what a peer asks for; False if it asks for something else."""
        command = self._command
        while b"\n" in peer.received:
            line, _, rest = peer.received.partition(b"\n")
            word, *numbers = line.split() or [b""]
            if word == b"read":
                command.acknowledge(int(numbers[0]))
                peer.answer_at = time.monotonic() + float(numbers[1])
            elif word == b"write":
                start, size, close = map(int, numbers)
                if len(rest) < size:
                    break  # the rest of the data comes
                command.take(start, rest[:size], close)
                peer.writes += 1
                del rest[:size]
            elif word == b"stop":
                command.stop("stopped")
                peer.stops += 1
            elif word == b"kill":
                command.kill()
            elif word == b"forget":
                self._forgotten = True
            else:
                return False
            peer.received = rest
        return True

    def _answer(self, peer, now):
        """Answers what can be answered; returns when something else can be at the latest."""
        command = self._command
        if peer.writes and not command.unwritten:
            peer.unsent += b"reads %d\n" % command.reads * peer.writes
            peer.writes = 0
        if peer.stops and command.ended:
            peer.unsent += b"stopped\n" * peer.stops
            peer.stops = 0
        if peer.answer_at != NEVER:
            if command.size:  # what comes together, goes together
                peer.answer_at = min(peer.answer_at, now + GATHER)
            if command.ended or command.size >= ANSWER or now >= peer.answer_at:
                peer.unsent += command.answer()
                peer.answer_at = NEVER
        return peer.answer_at


def read_order():
    size = data = b""
    while not size.endswith(b"\n"):
        size += os.read(0, 1) or os._exit(1)
    while len(data) < int(size):
        data += os.read(0, int(size) - len(data)) or os._exit(1)
    return os.fsdecode(data).split("\0")


def main():
    id, path, claim, cwd, limit, has_input, python, count, *words = read_order()
    variables = dict(word.split("=", 1) for word in words[: int(count)])
    command = words[int(count) :]
    begun, listener, what = time.monotonic(), None, b"place"
    try:
        path = path or socket_path(id)
        if path is None:
            raise OSError(0, "there is no private folder for its socket")
        what = b"run"
        listener = claimed_socket(path)
        what = b"folder"
        os.chdir(os.path.join(os.path.expanduser("~"), os.path.expanduser(cwd)))
        what = b"program"
        run = Command(
            [os.path.expanduser(command[0]), *command[1:]],
            process_environment(python, variables),
            float(limit) if limit else None,
            bool(has_input),
        )
    except OSError as error:
        why = path if what == b"run" else str(error.strerror)
        os.write(1, b"refused %s %d %s\n" % (what, error.errno or 0, os.fsencode(why)))
    else:
        try:
            RunKeeper(run, listener, path, Peer(0, 1)).run()
        finally:
            if run.code is None:
                run.kill()
            listener.close()
            # Nobody else may start it, as long as somebody may still try to.
            time.sleep(max(0.0, begun + float(claim) - time.monotonic()))
    finally:
        try:
            if listener:
                os.unlink(path)
        except OSError:
            pass  # it was removed
        os._exit(0)  # Python's own end takes longer


def fork_keepers():
    """A keeper for each connection that comes by the socket on the standard input: to copy this
    process takes an eighth of the time that starting Python takes.
    """
    _signal.signal(_signal.SIGCHLD, _signal.SIG_IGN)  # nobody waits for them
    parent = _socket.socket(fileno=0)
    while True:
        data, ancillary, _, _ = parent.recvmsg(1, _socket.CMSG_SPACE(4))
        if not data:
            os._exit(0)
        descriptor = int.from_bytes(ancillary[0][2], sys.byteorder)
        if os.fork() == 0:
            _signal.signal(_signal.SIGCHLD, _signal.SIG_DFL)
            os.setsid()
            for number in (0, 1):
                os.dup2(descriptor, number)
            os.close(descriptor)
            main()
        os.close(descriptor)

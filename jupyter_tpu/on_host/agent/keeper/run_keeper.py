"""The keeper of a run: the process next to one command that somebody watches. It owns the command
and its output until they are read.

The agent starts one for each run. On a host without an agent the client does, over SSH: that takes
a third of the time that starting an agent takes. Who starts it speaks to it by its standard input
and output; the client goes on by its socket, and does so again after each loss of the link. So a
run needs no agent. When nobody has been connected for `ABANDONED_SECONDS`, the keeper ends it.

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

import os
import time

from ..protocol.mounts import is_local
from ..protocol.process_env import process_environment
from .command_keeper import NEVER, CommandKeeper, KeeperClient, claimed_socket
from .run_command import ANSWER_BYTES, CommandProcess

#: Seconds that more output is waited for once there is some.
GATHER_SECONDS = 0.02
#: Seconds without a connection after which the command is ended, and its end is forgotten.
ABANDONED_SECONDS = 300.0
LONGEST_SOCKET = 107


def socket_path(id):
    """The usual one; None if the run can't have it."""
    folder = os.path.join(os.path.expanduser("~"), ".jupyter-tpu", "run")
    path = os.path.join(folder, "run-%s.sock" % id)
    if len(os.fsencode(path)) > LONGEST_SOCKET or not is_local(os.path.expanduser("~")):
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


class RunKeeper(CommandKeeper):
    """Serves all who ask about the command, until its end is known."""

    def __init__(self, command, listener, path, peer):
        super().__init__(listener)
        self._command = command
        self._path = path
        self._connected = command.begun  # when somebody was, the last time
        self._forgotten = False
        self.add(peer)

    def add(self, peer):
        command = self._command
        pid = command.pid if command.code is None else 0
        seconds = time.monotonic() - command.begun
        peer.writes = peer.stops = 0  # questions that are not answered yet
        peer.unsent += b"running %d %.3f %s\n" % (pid, seconds, os.fsencode(self._path))
        super().add(peer)

    def advance(self, now):
        command = self._command
        due = command.advance(now)
        if command.ended and self._forgotten:
            return None
        if self.peers:
            self._connected = now
        elif now >= self._connected + ABANDONED_SECONDS:
            if command.ended:
                return None
            command.stop("abandoned")
            self._connected = now
            return now
        return min(due, self._connected + ABANDONED_SECONDS)

    def pipes(self):
        command = self._command
        readers = {
            pipe: lambda number=number: command.read(number)
            for number, pipe in command.pipes.items()
            if number and not command.full
        }
        return readers, {command.pipes[0]: command.write} if command.unwritten else {}

    def ask(self, peer):
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

    def answer(self, peer, now):
        command = self._command
        if peer.writes and not command.unwritten:
            peer.unsent += b"reads %d\n" % command.reads * peer.writes
            peer.writes = 0
        if peer.stops and command.ended:
            peer.unsent += b"stopped\n" * peer.stops
            peer.stops = 0
        if peer.answer_at != NEVER:
            if command.size:  # what comes together, goes together
                peer.answer_at = min(peer.answer_at, now + GATHER_SECONDS)
            if command.ended or command.size >= ANSWER_BYTES or now >= peer.answer_at:
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
        run = CommandProcess(
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
            RunKeeper(run, listener, path, KeeperClient(0, 1)).serve()
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

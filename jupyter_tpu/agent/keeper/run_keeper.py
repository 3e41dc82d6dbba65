"""The keeper of a run: the process next to one command that somebody watches. It owns the command
and its output until they are read.

The agent starts one for each run. On a host without an agent the client does, over SSH: that takes
a third of the time that starting an agent takes. Either speaks to it in the same way
(`protocol.run_client`): at first by its standard input and output; after that connection, or beside
it, by its socket. So a run goes on without the link and the daemon, until nobody has been connected
for `ABANDONED` seconds: then the keeper ends it.

Its input begins with a line, the length of the order, and the order: words with a NUL between them.
It answers ``running PID SECONDS``, or ``refused WHAT ERRNO WHY``. A connection to the socket begins
with ``running``, too; 0 is the process id of a command that has ended. Then the other side asks::

    read START                 once there is output after START, which acknowledges what is before:
                               ``output STREAM LENGTH`` and the data, several times, and ``next``,
                               or with the last of it ``ended CODE SIGNAL CAUSE SECONDS``, in which
                               a number that is not known is -1
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

#: Bytes of output that are kept, that one answer carries about at most, and that are read at once.
BUFFER, ANSWER, PIECE = 1 << 20, 256 << 10, 64 << 10
#: Seconds that a question waits for output, and for more of it once there is some.
WAIT, GATHER = 20.0, 0.02
#: Seconds without a connection after which the command is ended, and its end is forgotten.
ABANDONED = 300.0
#: A stopped command gets these signals one after the other; seconds until the next one.
SIGNALS = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGKILL)
GRACE = 3.0
#: Seconds that output is waited for that processes in the background hold open.
LINGER = 0.5
LONGEST_SOCKET = 107
NEVER = float("inf")


def claimed_socket(id, path):
    """A socket that only one keeper gets, at *path* or at the usual place; None if this can't be
    it.
    """
    if not path:
        folder = os.path.join(os.path.expanduser("~"), ".jupyter-tpu", "run")
        path = os.path.join(folder, "run-%s.sock" % id)
        if len(os.fsencode(path)) > LONGEST_SOCKET:
            return None, ""
        for directory in (os.path.dirname(folder), folder):
            if not os.path.isdir(directory):
                os.mkdir(directory, 0o700)
            stat_result = os.lstat(directory)
            if (
                os.path.islink(directory)
                or stat_result.st_uid != os.getuid()
                or stat_result.st_mode & 0o077
            ):
                return None, ""
    listener = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    before = os.umask(0o077)
    try:
        listener.bind(path)
    finally:
        os.umask(before)
    listener.listen(8)
    return listener, path


class Command:
    """The command, from its start to the end of its output.

    pipes: ours, by number: 0 (if it has input), 1 and 2.
    """

    def __init__(self, command, env, limit, has_input):
        self.begun = time.monotonic()
        self.seconds = 0.0  # it took, once it has ended
        self.code: "int | None" = None  # negative: a signal's number
        self.cause = ""  # why it was ended, if it was
        self.ended = False  # also if it could not be ended
        self.pipes = {}
        self.written = 0  # bytes of its input
        self.unwritten = bytearray()
        self._input_ends = False
        self._signals = list(SIGNALS)
        self._next_signal = NEVER if limit is None else self.begun + limit
        self._silent_since = NEVER  # after its end
        self._chunks: "list[tuple[int, bytearray]]" = []  # its output, from `_start` on
        self._start = self.size = 0
        theirs = {}
        for number in (0, 1, 2) if has_input else (1, 2):
            ends = os.pipe()
            self.pipes[number], theirs[number] = ends if number else ends[::-1]
        if has_input:
            os.set_blocking(self.pipes[0], False)
        else:
            theirs[0] = os.open(os.devnull, os.O_RDONLY)
        self.pid = spawn(command, env, theirs)
        for pipe in theirs.values():
            os.close(pipe)

    def advance(self, now):
        """Looks whether it has ended, and sends the next signal when it is time.

        Returns when this has to be done again at the latest.
        """
        if self.ended:
            return NEVER
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = -(status & 127) if status & 127 else status >> 8
                self._silent_since = now
            elif now >= self._next_signal:
                self.cause = self.cause or "timeout"
                if not self._signals:  # it is another user's, or hangs in the system
                    self._end()
                    return NEVER
                self.signal(self._signals.pop(0))
                self._next_signal = time.monotonic() + GRACE
            if self.code is None:
                return self._next_signal
        if self.full and not self.cause:
            self._silent_since = NEVER  # it waits to write the rest
        elif self._silent_since == NEVER:
            self._silent_since = now
        if not {1, 2} & set(self.pipes) or now >= self._silent_since + LINGER:
            self._end()
            return NEVER
        return self._silent_since + LINGER

    def _end(self):
        self.ended = True
        self.seconds = time.monotonic() - self.begun
        for number in list(self.pipes):
            self._close(number)

    def stop(self, cause):
        """Begins to end it."""
        if not self.cause and not self.ended:
            self.cause, self._next_signal = cause, time.monotonic()

    def kill(self):
        """Ends it at once."""
        self.stop("stopped")
        if self.code is None:
            self.signal(_signal.SIGKILL)

    def signal(self, number):
        """To its process group, and to those of its children that have left that."""
        from ..protocol.process_tree import signal_tree

        signal_tree(self.pid, number)

    # ---- output

    @property
    def full(self):
        return self.size >= BUFFER

    def read(self, number):
        """Takes what it has written."""
        data = os.read(self.pipes[number], PIECE)
        if not data:
            self._close(number)
            return
        if not self._chunks or self._chunks[-1][0] != number or len(self._chunks[-1][1]) > PIECE:
            self._chunks.append((number, bytearray()))
        self._chunks[-1][1].extend(data)
        self.size += len(data)
        if self.code is not None:
            self._silent_since = time.monotonic()

    def acknowledge(self, offset):
        """Output before *offset* was received."""
        rest = min(offset - self._start, self.size)
        if rest > 0:
            self._start += rest
            self.size -= rest
            count = 0
            while rest and rest >= len(self._chunks[count][1]):
                rest -= len(self._chunks[count][1])
                count += 1
            del self._chunks[:count]
            if rest:
                del self._chunks[0][1][:rest]

    def answer(self):
        """What there is of its output, as an answer has it."""
        lines, size = [], 0
        for number, data in self._chunks:
            if size and size + len(data) > ANSWER:
                break
            lines.append(b"output %d %d\n%s" % (number, len(data), data))
            size += len(data)
        if self.ended and size == self.size:
            code, number = (-1, -1) if self.code is None else (self.code, -1)
            if code < 0 and self.code is not None:
                code, number = -1, -code
            lines.append(b"ended %d %d %s %.3f\n" % (
                code, number, self.cause.encode() or b"-", self.seconds))  # fmt: skip
        else:
            lines.append(b"next\n")
        return b"".join(lines)

    # ---- input

    @property
    def reads(self):
        """Whether it takes more input."""
        return 0 in self.pipes and not self._input_ends

    def take(self, start, data, close):
        """Takes input that begins at the offset *start*; what it has already is skipped."""
        if self.reads:
            new = data[max(0, self.written - start) :]
            self.written += len(new)
            self.unwritten += new
            self._input_ends = close
            self.write()

    def write(self):
        """Writes input as far as there is room."""
        try:
            if self.unwritten:
                del self.unwritten[: os.write(self.pipes[0], self.unwritten[:PIECE])]
        except BlockingIOError:
            pass
        except OSError:  # it has closed it
            self._close(0)
        if self._input_ends and not self.unwritten and 0 in self.pipes:
            self._close(0)

    def _close(self, number):
        os.close(self.pipes.pop(number))
        if number == 0:
            self.unwritten.clear()


def spawn(command, env, streams):
    """Starts *command* with these descriptors as 0, 1 and 2; returns its process id."""
    os.environ["PATH"] = env.get("PATH", os.defpath)  # where it is looked for
    try:
        return os.posix_spawnp(
            command[0],
            command,
            env,
            file_actions=[(os.POSIX_SPAWN_DUP2, streams[number], number) for number in (0, 1, 2)],
            setsid=True,
            setsigdef=(_signal.SIGPIPE, _signal.SIGXFSZ),
        )
    except NotImplementedError:  # of an old C library
        import subprocess

        process = subprocess.Popen(command, env=env, stdin=streams[0], stdout=streams[1],
                                   stderr=streams[2], start_new_session=True)  # fmt: skip
        process.returncode = 0  # it is waited for here
        return process.pid


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

    def __init__(self, command, listener, peer):
        self._command = command
        self._listener = listener
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
        return b"running %d %.3f\n" % (pid, time.monotonic() - command.begun)

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
                if (peer.target in writable and not peer.send()) or (
                    peer.source in readable and not (peer.receive() and self._ask(peer))
                ):
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
                peer.answer_at = time.monotonic() + WAIT
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
    begun, listener, what = time.monotonic(), None, b"socket"
    try:
        listener, path = claimed_socket(id, path)
        if listener is None:
            raise OSError(0, "there is no place for it")
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
        os.write(1, b"refused %s %d %s\n" % (
            what, error.errno or 0, str(error.strerror).encode()))  # fmt: skip
    else:
        try:
            RunKeeper(run, listener, Peer(0, 1)).run()
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

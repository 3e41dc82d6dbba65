"""The command of a run: a process with pipes, from its start to the end of its output."""

import _signal
import os
import time

from .command_keeper import NEVER, PIECE_BYTES

#: Bytes of output that are kept, and that one answer carries about at most.
BUFFER_BYTES, ANSWER_BYTES = 1 << 20, 256 << 10
#: A stopped command gets these signals one after the other; seconds until the next one.
SIGNALS = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGKILL)
GRACE_SECONDS = 3.0
#: Seconds that output is waited for that processes in the background hold open.
LINGER_SECONDS = 0.5


class CommandProcess:
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
                self._next_signal = time.monotonic() + GRACE_SECONDS
            if self.code is None:
                return self._next_signal
        if self.full and not self.cause:
            self._silent_since = NEVER  # it waits to write the rest
        elif self._silent_since == NEVER:
            self._silent_since = now
        if not {1, 2} & set(self.pipes) or now >= self._silent_since + LINGER_SECONDS:
            self._end()
            return NEVER
        return self._silent_since + LINGER_SECONDS

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
        return self.size >= BUFFER_BYTES

    def read(self, number):
        """Takes what it has written."""
        data = os.read(self.pipes[number], PIECE_BYTES)
        if not data:
            self._close(number)
            return
        if (
            not self._chunks
            or self._chunks[-1][0] != number
            or len(self._chunks[-1][1]) > PIECE_BYTES
        ):
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
            if size and size + len(data) > ANSWER_BYTES:
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
                del self.unwritten[: os.write(self.pipes[0], self.unwritten[:PIECE_BYTES])]
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

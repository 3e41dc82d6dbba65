"""Runs on a host: starts a command there at once, before an agent runs, and follows it until an
agent asks for it. It takes a third of the time that starting an agent takes.

Its input begins with a line, the length of what follows: words with a NUL between them. Its output
are lines: ``started``; ``output STREAM LENGTH`` and the data; ``ended CODE SIGNAL CAUSE SECONDS``
(a number that is unknown is -1); ``agent`` if it started nothing, because it can't tell why as well
as the agent. The client sends ``s`` to stop the command, and ``.`` when it knows the end.

What the command has written is kept up to `BUFFER` bytes; then the command waits. An agent connects
to the socket (`agent.daemon.handed_over`): it gets the same lines, and with the first of them,
``running PID SECONDS CAUSE LIMIT PIPES``, the command's pipes. From then on this program only waits
for the end. Without a client and an agent it ends the command after `ABANDONED` seconds.

It imports as little as possible, since each run waits for it.
"""

import _signal
import _socket
import os
import select
import sys
import time

BUFFER = 1 << 20
ABANDONED = 300.0
#: As in `agent.daemon.run_process`: the signals to end a command, seconds between them, and seconds
#: that output is waited for that processes in the background hold open.
SIGNALS = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGKILL)
GRACE, LINGER = 3.0, 0.5
LONGEST_SOCKET = 107


def environment(python, variables):
    """As the agent makes it, without what that imports for it."""
    typing = sys.modules["typing"] = type(sys)("typing")
    vars(typing)["__getattr__"] = lambda name: None
    from jupyter_tpu.agent.protocol.process_env import process_environment

    del sys.modules["typing"]
    return process_environment(python, variables)


def claimed_socket(id):
    """A socket that only one program gets; None if this can't be it."""
    home = os.path.expanduser("~")
    folder = os.path.join(home, ".jupyter-tpu", "run")
    path = os.path.join(folder, "r-%s.sock" % id)
    if len(os.fsencode(folder)) + 30 > LONGEST_SOCKET:
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
    listener.bind(path)
    os.umask(before)
    listener.listen(1)
    return listener, path


class Run:
    """The command, whose pipes are `pipes` by number: 0 (if it has input), 1 and 2."""

    def __init__(self, command, cwd, env, limit, has_input):
        self.begun = time.monotonic()
        self.limit = limit
        self.ending = None if limit is None else self.begun + limit
        self.signals = list(SIGNALS)
        self.cause = ""
        self.code: "int | None" = None  # negative: a signal's number
        self.kept = []
        self.size = 0
        self.silent_since = None
        self.pipes = {}
        theirs = {}
        for number in (0, 1, 2) if has_input else (1, 2):
            ends = os.pipe()
            self.pipes[number], theirs[number] = ends if number else ends[::-1]
        if not has_input:
            theirs[0] = os.open(os.devnull, os.O_RDONLY)
        os.chdir(cwd)
        os.environ["PATH"] = env["PATH"]  # where it is looked for
        self.pid = os.posix_spawnp(
            command[0],
            command,
            env,
            file_actions=[(os.POSIX_SPAWN_DUP2, theirs[number], number) for number in (0, 1, 2)],
            setsid=True,
            setsigdef=(_signal.SIGPIPE, _signal.SIGXFSZ),
        )
        for pipe in theirs.values():
            os.close(pipe)

    @property
    def seconds(self):
        return time.monotonic() - self.begun

    def read(self, number):
        data = os.read(self.pipes[number], 65536)
        if not data:
            os.close(self.pipes.pop(number))
            return b""
        line = b"output %d %d\n%s" % (number, len(data), data)
        self.kept.append(line)
        self.size += len(data)
        return line

    def look(self):
        """Whether it has ended; sends the next signal when it is time."""
        if self.code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.code = -(status & 127) if status & 127 else status >> 8
                self.silent_since = time.monotonic()
        now = time.monotonic()
        if self.code is None and self.ending is not None and now >= self.ending and self.signals:
            self.cause = self.cause or "timeout"
            self.signal(self.signals.pop(0))
            self.ending = now + GRACE
        return self.code is not None

    def stop(self, cause):
        """Begins to end it."""
        if not self.cause:
            self.cause, self.ending = cause, time.monotonic()

    def signal(self, number):
        """To its process group, and to those of its children that have left that."""
        from jupyter_tpu.agent.protocol.process_tree import signal_tree

        signal_tree(self.pid, number)

    def whole(self):
        """Whether it has ended, and no more output is waited for."""
        open_pipes = {1, 2} & set(self.pipes)
        silent = self.silent_since is not None and time.monotonic() > self.silent_since + LINGER
        return self.code is not None and (not open_pipes or silent)

    def end_line(self):
        assert self.code is not None
        code, number = (self.code, -1) if self.code >= 0 else (-1, -self.code)
        return b"ended %d %d %s %.3f\n" % (
            code, number, self.cause.encode() or b"-", self.seconds)  # fmt: skip


def hand_over(run, connection):
    """Gives the command to the agent, and waits for its end. The agent's end ends it."""
    rights = b"".join(run.pipes[number].to_bytes(4, sys.byteorder) for number in sorted(run.pipes))
    limit = -1 if run.limit is None else run.limit
    numbers = "".join(map(str, sorted(run.pipes)))
    head = "running %d %.3f %s %f %s\n" % (
        run.pid, run.seconds, run.cause or "-", limit, numbers or "-")  # fmt: skip
    connection.sendmsg(
        [head.encode()], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)] if rights else []
    )
    connection.sendall(b"".join(run.kept))
    for pipe in run.pipes.values():
        os.close(pipe)
    run.pipes, run.kept, run.ending = {}, [], None
    connection.sendall(b"all\n")
    while run.code is None:
        readable = select.select([connection, *WAKE[:1]], [], [], None)[0]
        if WAKE[0] in readable:
            os.read(WAKE[0], 4096)
        if connection in readable and not connection.recv(1) and not run.look():
            run.signal(_signal.SIGKILL)
        run.look()
    try:  # noqa: SIM105
        connection.sendall(run.end_line())
    except OSError:
        pass  # it has ended, too


WAKE = os.pipe()


def follow(run, listener):
    """Until the client has the end, or an agent the command."""
    client, pending, ended = True, bytearray(b"started\n"), False
    last = time.monotonic()
    os.set_blocking(1, False)
    while True:
        if run.look() and run.whole() and not ended:
            ended = True
            pending += run.end_line()
        now = time.monotonic()
        if client:
            last = now
        elif now > last + ABANDONED:
            if ended:
                return
            run.stop("abandoned")
        full = run.size >= BUFFER
        reading = [] if full else [pipe for number, pipe in run.pipes.items() if number]
        wait = min(30.0, ABANDONED)
        if run.code is not None and not ended:
            wait = LINGER / 5
        elif run.code is None and run.ending is not None and run.signals:
            wait = max(0.0, min(wait, run.ending - now))
        readable, writable, _ = select.select(
            [*reading, listener, WAKE[0], *([0] if client else [])],
            [1] if client and pending else [], [], wait)  # fmt: skip
        if WAKE[0] in readable:
            os.read(WAKE[0], 4096)
        for number in [stream for stream, pipe in run.pipes.items() if pipe in readable]:
            pending += run.read(number)
            if run.code is not None:
                run.silent_since = time.monotonic()
        if 0 in readable:
            try:
                told = os.read(0, 1)
            except OSError:
                told = b""
            if told == b".":
                return
            if told:
                run.stop("stopped")
            client = bool(told)
        if writable:
            try:
                del pending[: os.write(1, pending[:65536])]
            except BlockingIOError:
                pass
            except OSError:
                client = False
        if listener in readable:
            connection = _socket.socket(fileno=listener._accept()[0])
            for number in (0, 1):  # the client learns that it has to ask the agent
                os.close(number)
            hand_over(run, connection)
            return


def read_request():
    size = data = b""
    while not size.endswith(b"\n"):
        size += os.read(0, 1) or os._exit(1)
    while len(data) < int(size):
        data += os.read(0, int(size) - len(data)) or os._exit(1)
    return os.fsdecode(data).split("\0")


def main():
    id, cwd, limit, has_input, python, count, *words = read_request()
    variables = dict(word.split("=", 1) for word in words[: int(count)])
    command = words[int(count) :]
    _signal.signal(_signal.SIGCHLD, lambda *_: None)
    os.set_blocking(WAKE[1], False)
    _signal.set_wakeup_fd(WAKE[1])
    run, path = None, ""
    try:
        listener, path = claimed_socket(id)
        if listener:
            run = Run(
                [os.path.expanduser(command[0]), *command[1:]],
                os.path.join(os.path.expanduser("~"), os.path.expanduser(cwd)),
                environment(python, variables),
                float(limit) if limit else None,
                bool(has_input),
            )
    except (OSError, NotImplementedError):
        pass  # the agent can say why
    try:
        if run:
            follow(run, listener)
        else:
            os.write(1, b"agent\n")
    except OSError:
        if run:
            run.signal(_signal.SIGKILL)
    finally:
        if path:
            os.unlink(path)
        os._exit(0)  # Python's own end takes longer

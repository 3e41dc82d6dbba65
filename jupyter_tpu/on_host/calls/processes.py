"""One call of a program, from its request to its answer, and child processes, which end with it."""

import contextlib
import errno
import json
import os
import select
import signal
import subprocess
import sys
import threading

from .paths import HOME
from .protocol import HostError, disk_full, emit

_children = set()  # type: ignore[var-annotated]


def stop(*_):
    """Ends all child processes and this one."""
    for child in list(_children):
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)
    os._exit(143)


def watch_reader():
    """Ends everything when no one reads standard output: no link any more, or a cancelled call."""
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # errors are always reported
    while not poll.poll(60000):
        pass
    stop()


def run(argv, input="", env=None, timeout=3600, on_line=None, pass_fds=()):
    """(status, lines of output and errors); *timeout* in seconds.

    What the command leaves running is not waited for, and its output is not read.
    """
    child = subprocess.Popen(
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=env,
        cwd=HOME,
        start_new_session=True,
        pass_fds=pass_fds,
    )
    _children.add(child)

    def kill():
        with contextlib.suppress(OSError):
            os.killpg(child.pid, signal.SIGKILL)

    assert child.stdin is not None
    assert child.stdout is not None
    timer = threading.Timer(timeout, kill)
    timer.start()
    lines = []
    try:
        with contextlib.suppress(BrokenPipeError):
            child.stdin.write(input.encode())
            child.stdin.close()
        for raw in _output(child):
            for line in raw.decode("utf-8", "replace").replace("\r", "\n").splitlines():
                lines.append(line.rstrip())
                if on_line and line.strip():
                    on_line(line.rstrip())
        return child.wait(), lines
    finally:
        timer.cancel()
        child.stdout.close()
        _children.discard(child)


def _output(child):
    """The lines of a child until it ends, or until no one can write more."""
    source, rest = child.stdout.fileno(), b""
    while True:
        ended = child.poll() is not None
        if select.select([source], [], [], 0 if ended else 0.2)[0]:
            data = os.read(source, 1 << 16)
        elif ended:
            data = b""
        else:
            continue
        *lines, rest = (rest + data).split(b"\n")
        yield from (line + b"\n" for line in lines)
        if not data:
            if rest:
                yield rest
            return


def text_of(module):
    """The text of a module of ours, for ``python -c``; on a host this program has brought it."""
    return module.__loader__.get_source(module.__name__)


def clean_environment():
    """Without what belongs to other Pythons; TCMalloc's LD_PRELOAD breaks some wheels."""
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in ("LD_PRELOAD", "VIRTUAL_ENV", "CONDA_PREFIX")
        and not name.startswith("PYTHON")
    }
    env["NO_COLOR"] = "1"
    return env


def serve(calls):
    """Runs the function of *calls* (by their names) that the request means."""
    request = json.load(sys.stdin)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, stop)
    threading.Thread(target=watch_reader, daemon=True).start()
    call = calls[request.pop("call")]
    try:
        emit(result=call(**request))
    except HostError as error:
        emit(error=error.payload)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            emit(error=disk_full(error.strerror).payload)
        else:
            emit(error=["ENVIRONMENT", "%s." % error, "The log has details."])

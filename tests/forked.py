"""Commands, servers, emulators and pytest's workers, whose imports were done by another process.

`ForkServer` keeps a process that has imported what they import, which is most of what their start
costs. For each it forks another, which becomes the program as ``python -m`` would: with its own
arguments, variables, folder and standard streams. Starts that import for themselves are tested,
too: in terminals, by users' programs, and where a start's time or its imports are measured.

A run with many workers has one such process for all (`distribution`). The workers themselves are
forked from a second one, which has also imported what the tests do: ``python forked.py -u -c CODE``
is the Python that xdist starts for a worker.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import re
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

#: What commands, servers and emulators import, with all modules below.
PACKAGES = (
    *(
        f"jupyter_tpu.{name}"
        for name in ("cli", "commands", "terminal", "fleet", "cloud", "links", "ssh")
    ),
    *(f"jupyter_tpu.{name}" for name in ("emulator", "kernels", "server")),
    "jupyter_server.services",
)
LIBRARIES = (
    *("asyncssh", "google.cloud.tpu_v2", "grpc.aio", "sqlite3", "urllib.request"),
    *("jupyter_server.serverapp", "jupyter_server.gateway.managers"),
)
#: The width of the numbers that are sent, in characters.
WIDTH = 20
#: How a module is imported at the beginning of a test file.
IMPORT = r"^(?:import |from |(?:\w+ = )?pytest\.importorskip\(\")([\w.]+)"
#: The variable that names the socket of a run's process for all workers.
ADDRESS = "TESTS_FORKS"
#: Behind it: where workers are forked.
WORKERS = ".workers"
#: The variable that names the file of the control group in which processor time is counted.
GROUP = "TESTS_CPU_GROUP"


class ForkServer:
    """The process that others are forked from; it ends with this one.

    *workers*: whether there is one for pytest's workers, too.
    """

    def __init__(self, *, workers: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.address = str(Path(self._folder.name, "forks"))
        self._process = subprocess.Popen(
            [
                sys.executable,
                __file__,
                "--serve",
                self.address,
                *(["--workers"] if workers else []),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        if not self._process.stdout.readline():
            raise RuntimeError("no process to fork commands from")

    def stop(self) -> None:
        """Ends it, but nothing that was forked from it."""
        self._process.stdin.close()
        self._process.wait(60)


class Forks:
    """Forks processes of the server at *address*."""

    def __init__(self, address: str) -> None:
        self._address = address

    def run(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        env: Mapping[str, str],
        timeout: float,
        cwd: Path | None = None,
        input: str | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """As `subprocess.run` of ``python -m MODULE``, with its output as text."""
        pipes = [os.pipe() for _ in range(3)]
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        ours = [pipes[0][1], pipes[1][0], pipes[2][0]]
        process = self.fork([module, *arguments], env, theirs, cwd)
        for end in theirs:
            os.close(end)
        to, output, errors = (os.fdopen(end, mode) for end, mode in zip(ours, "wrr", strict=True))
        killer = threading.Timer(timeout, process.kill)
        killer.start()
        with ThreadPoolExecutor(1) as pool, output, errors:
            said = pool.submit(errors.read)
            with contextlib.suppress(BrokenPipeError), to:
                to.write(input or "")
            text = output.read()
            code = process.wait()
            if not killer.is_alive():
                raise subprocess.TimeoutExpired(module, timeout, text, said.result())
            killer.cancel()
            return subprocess.CompletedProcess([module, *arguments], code, text, said.result())

    def start(
        self, module: str, arguments: Sequence[str], *, env: Mapping[str, str], log: int
    ) -> ForkedProcess:
        """As `subprocess.Popen` of ``python -m MODULE`` in a session of its own.

        *log*: the descriptor of what it says.
        """
        nothing = os.open(os.devnull, os.O_RDONLY)
        try:
            words = [module, *arguments]
            return self.fork(words, env, [nothing, log, log], session=True)
        finally:
            os.close(nothing)

    def fork(
        self,
        words: list[str],
        env: Mapping[str, str],
        streams: list[int],
        cwd: Path | None = None,
        *,
        session: bool = False,
    ) -> ForkedProcess:
        """A process with these standard streams.

        *words*: a module and its arguments; or "", what ``python -c`` gets, and its arguments.
        """
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(self._address)
        asked = {
            "words": words,
            "env": dict(env),
            "cwd": str(cwd or Path.cwd()),
            "session": session,
            "group": os.environ.get(GROUP),
        }
        with tempfile.TemporaryFile() as file:  # more than a packet may carry
            file.write(json.dumps(asked).encode())
            file.flush()
            socket.send_fds(connection, [b"fork"], [file.fileno(), *streams])
        return ForkedProcess(connection)


class ForkedProcess:
    """One of them, with what tests use of `subprocess.Popen`."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.pid = _number(connection)
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit code, if it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select.select([self._connection], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
            self.returncode = _number(self._connection)
            self._connection.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _number(connection: socket.socket) -> int:
    return int(connection.recv(WIDTH, socket.MSG_WAITALL))


@functools.cache
def own_server() -> ForkServer:
    """That of a run without workers."""
    return ForkServer()


@functools.cache
def forks() -> Forks:
    """Those of this run."""
    return Forks(os.environ.get(ADDRESS) or own_server().address)


def become_worker(words: list[str]) -> int:
    """As ``python -u -c CODE``, in a process that has the tests' imports; gives its exit code.

    *words*: these options. The process gets the standard streams of this one.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who has started the worker ends it
    forks = Forks(os.environ[ADDRESS] + WORKERS)
    return forks.fork(["", words[-1]], os.environ, [0, 1, 2]).wait()


# ---- in the process that is forked from ---------------------------------------------------------


def _import_all() -> None:
    for name in PACKAGES:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    for name in LIBRARIES:
        importlib.import_module(name)
    # Packed for the first host that lacks it, which is 0.4 s in each process.
    importlib.import_module("jupyter_tpu.on_host.packing").agent_bundle().data  # noqa: B018


def _import_as_tests() -> None:
    """What test files import at their beginning, apart from each other."""
    tests = Path(__file__).parent
    names: set[str] = set()
    for file in tests.rglob("test_*.py"):
        names.update(re.findall(IMPORT, file.read_text(), re.MULTILINE))
    own = {file.stem for file in tests.rglob("*.py")}
    for name in sorted(names):
        if name.partition(".")[0] not in own:
            with contextlib.suppress(ImportError):  # for the test to report, or to skip
                importlib.import_module(name)
    # Hypothesis looks for constants in all our modules, in each process that collects its tests.
    with contextlib.suppress(ImportError):
        from hypothesis.internal.conjecture.providers import _get_local_constants

        _get_local_constants()


def _listen(address: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(address)
    listener.listen(64)
    return listener


def _serve(listener: socket.socket) -> None:
    """Forks a process for each connection, until standard input ends."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how those end
    gc.freeze()
    while True:
        ready, _, _ = select.select([listener, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            _supervise(connection)
        connection.close()


def _supervise(connection: socket.socket) -> None:
    """Forks the command, and reports its process and its exit code."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _, descriptors, _, _ = socket.recv_fds(connection, 100, 4)
    pid = os.fork()
    if pid == 0:
        connection.close()
        _become(*descriptors)
    for descriptor in descriptors:
        os.close(descriptor)
    with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
        connection.send(b"%*d" % (WIDTH, pid))
        connection.send(b"%*d" % (WIDTH, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))
    os._exit(0)


def _become(description: int, *streams: int) -> None:
    """The command, up to its end."""
    with open(description, encoding="utf-8") as file:
        file.seek(0)
        asked = json.load(file)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(
        2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False
    )
    if asked["session"]:
        os.setsid()
    if asked["group"]:
        Path(asked["group"]).write_text("0")
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    module, *arguments = asked["words"]
    with contextlib.suppress(OSError):  # Linux: by what name `ps` and `top` know it
        Path("/proc/self/comm").write_text(module.removeprefix("jupyter_")[:15] or "tests-python")
    sys.argv = ["", *arguments]
    code: Any = 1
    try:
        if module:
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        else:
            main = sys.modules["__main__"] = types.ModuleType("__main__")
            exec(sys.argv.pop(1), main.__dict__)
        code = 0
    except SystemExit as end:
        code = end.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
            code = 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        threading._shutdown()
        atexit._run_exitfuncs()
        with contextlib.suppress(OSError, io.UnsupportedOperation):
            sys.stdout.flush()
        os._exit(code or 0)


def _main(address: str, *options: str) -> None:
    listener = _listen(address)
    workers = _listen(address + WORKERS) if options else None  # answers when it has its imports
    _import_all()
    print("ready", flush=True)
    if workers is not None:
        if os.fork() == 0:
            listener.close()
            listener = workers
            _import_as_tests()
        else:
            workers.close()
    _serve(listener)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        _main(*sys.argv[2:])
    else:
        sys.exit(become_worker(sys.argv[1:]))

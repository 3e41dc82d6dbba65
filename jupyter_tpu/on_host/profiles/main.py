"""Profiles of running programs: what their devices do for some seconds, and what fills them."""

import ast
import asyncio
import base64
import contextlib
import errno
import json
import os
import shutil
import tempfile
import threading
import time

from ..agent.metrics.grpc_calls import NotGRPC, call
from ..agent.metrics.protobuf import encode, encode_number
from ..agent.protocol.paths import kernel_folder, run_folder
from ..agent.protocol.timeouts import with_timeout
from ..calls.paths import HOME, environment_dir, private_dir
from ..calls.processes import clean_environment, run, serve, text_of
from ..calls.protocol import HostError, disk_full, emit
from ..in_environment import ask_kernel

#: Seconds that JAX may take to write a trace, and to answer otherwise.
WRITE_SECONDS, ANSWER_SECONDS = 180, 60
#: Longest memory profile, bytes; it is compressed.
LARGEST_PROFILE_BYTES = 16 << 20
#: How the names of traces end that xprof reads.
SUFFIX = ".xplane.pb"
#: How the folder's name begins in which a run's traces are collected.
COLLECTING = ".collecting-"
#: Seconds after which what a killed trace has left is deleted.
LEFTOVER_SECONDS = 3600

#: These run in the kernel, in a subshell (a thread next to the one that runs cells). They neither
#: import nor start JAX: that would take the chips.
_STARTED = """
import sys
if not getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None):
    answer = {"state": "no jax"}
else:
    import time, jax
"""
TRACE = (
    _STARTED
    + """
    time.sleep(max(0.0, min(lead, start - time.time())))
    try:
        jax.profiler.start_trace(folder)
        began = time.time()
        try:
            time.sleep(seconds)
        finally:
            ended = time.time()
            jax.profiler.stop_trace()
        answer = {"state": "done", "began": began, "ended": ended}
    except RuntimeError as error:
        answer = {"state": "failed", "error": str(error)}
"""
)
#: Files of cells get the number of the cell.
MEMORY = (
    _STARTED
    + """
    from IPython import get_ipython
    with open(folder + "/memory", "wb") as file:
        file.write(jax.profiler.device_memory_profile())
    cells = getattr(getattr(get_ipython(), "compile", None), "_filename_map", {})
    answer = {"state": "done", "cells": dict(cells)}
"""
)


def make_folder(folder):
    """Makes the folder for a run's traces; returns its absolute path."""
    folder = _absolute(folder)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return folder


def finish_run(folder, to):
    """Gives the folder in which a run's traces were collected its name *to*; returns its path.

    Only then does xprof find it, with all traces. Another run of that name stays: then it has a
    number.
    """
    os.makedirs(os.path.dirname(_absolute(to)), mode=0o700, exist_ok=True)
    path, number = _absolute(to), 1
    while True:
        try:
            os.rename(_absolute(folder), path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            number += 1
            path = "%s_%d" % (_absolute(to), number)
        else:
            return path


def _absolute(folder):
    return os.path.normpath(os.path.join(HOME, os.path.expanduser(folder)))


def trace(kernels, port, folder, seconds, start, lead):
    """Traces kernels and the program whose profiler server listens at *port*, all at once.

    kernels: each with its id, environment, Python and the name of the file that it gets in
    *folder*. It begins at the time *start*, but after at most *lead* seconds.
    """
    folder = make_folder(folder)
    _remove_left(private_dir("profiles"))
    _remove_left(os.path.dirname(folder), COLLECTING)

    def trace_kernel(kernel):
        with _own_folder() as own:
            variables = {"folder": own, "seconds": seconds, "start": start, "lead": lead}
            done = _ask(kernel, TRACE, variables, lead + seconds + WRITE_SECONDS)
            path = _path(folder, kernel["name"])
            shutil.move(_written(own), path)
            return done, path

    def trace_server():
        path = _path(folder, port["name"])
        time.sleep(max(0.0, min(lead, start - time.time())))
        began = time.time()
        _call_server(port["port"], path, seconds)
        return {"began": began, "ended": began + seconds}, path

    calls = [lambda kernel=kernel: trace_kernel(kernel) for kernel in kernels]
    traced = _at_once(calls + ([trace_server] if port else []))
    with contextlib.suppress(OSError):
        os.rmdir(folder)  # xprof would show a run without traces
    answers: "list[dict]" = []
    for outcome in traced:
        if isinstance(outcome, HostError):
            answers.append({"error": outcome.payload})
            continue
        done, path = outcome
        size = os.path.getsize(path)
        emit(log="%s: %.1f MB" % (path, size / 1e6))
        answers.append(
            {"path": path, "bytes": size, "began": done["began"], "ended": done["ended"]}
        )
    return answers


def profile_memory(kernels):
    """What fills the devices of each kernel: its profile, base64, and the numbers of its cells."""
    _remove_left(private_dir("profiles"))

    def profile(kernel):
        with _own_folder() as own:
            done = _ask(kernel, MEMORY, {"folder": own}, ANSWER_SECONDS)
            with open(os.path.join(own, "memory"), "rb") as file:
                data = file.read(LARGEST_PROFILE_BYTES + 1)
        if len(data) > LARGEST_PROFILE_BYTES:
            raise HostError("ENVIRONMENT", "The memory profile has more than 16 MiB.")
        return {"data": base64.b64encode(data).decode(), "cells": done["cells"]}

    traced = _at_once([lambda kernel=kernel: profile(kernel) for kernel in kernels])
    return [
        {"error": outcome.payload} if isinstance(outcome, HostError) else outcome
        for outcome in traced
    ]


def _at_once(calls):
    """The result or `HostError` of each call."""
    host_errors = [HostError("INTERNAL", "It ended without an answer.")] * len(calls)

    def work(number, call):
        try:
            host_errors[number] = call()
        except HostError as error:
            host_errors[number] = error
        except OSError as error:
            full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            host_errors[number] = (
                disk_full(error.strerror) if full else HostError("ENVIRONMENT", "%s." % error)
            )

    threads = [threading.Thread(target=work, args=item, daemon=True) for item in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return host_errors


def _ask(kernel, code, variables, timeout):
    """What *code* says in a kernel, which has *variables* there."""
    request = {
        "connection": _connection(kernel["id"]),
        "code": code,
        "variables": variables,
        "timeout": timeout,
    }
    python = kernel["python"] or os.path.join(
        environment_dir(kernel["environment"]), "bin", "python"
    )
    status, lines = run(
        [python, "-c", text_of(ask_kernel)],
        input=json.dumps(request),
        env=clean_environment(),
        timeout=timeout + 30,
        on_line=lambda line: None if line.startswith("profiled ") else emit(log=line),
    )
    answers = [json.loads(line[len("profiled ") :]) for line in lines if line[:9] == "profiled "]
    problem = answers[-1].get("problem", "") if answers else "its client ended (%d)" % status
    if problem == "no subshells":
        raise HostError(
            "ENVIRONMENT",
            "This kernel has no subshells, so it can't be profiled while it runs cells.",
            "Install ipykernel 7 or newer in its environment, and restart the kernel.",
        )
    if not problem:
        # As IPython shows it: the repr of a text.
        answer = json.loads(ast.literal_eval(answers[-1]["answer"]))
        if answer["state"] == "done":
            return answer
        if answer["state"] == "no jax":
            raise HostError(
                "CONFLICT",
                "The kernel has not used JAX yet, so there is nothing to profile.",
                "Run a cell that uses JAX first.",
            )
        problem = answer["error"]
    raise HostError("ENVIRONMENT", "The kernel could not be profiled: %s." % problem.rstrip("."))


def _connection(kernel):
    """The connection file of a kernel of our agent."""
    path = os.path.join(kernel_folder(run_folder(), kernel), "connection.json")
    if os.path.isfile(path) and os.stat(path).st_uid == os.getuid():
        return path
    raise HostError("NOT_FOUND", "The kernel has ended.")


def _call_server(port, path, seconds):
    """Has the server of `jax.profiler.start_server` write a trace.

    Source: tsl/profiler/protobuf/profiler_service.proto and profiler_options.proto.
    """
    folder, name = os.path.split(path)
    root, session = os.path.split(folder)
    milliseconds = int(seconds * 1000)
    # version, host, device and Python tracers, HLO, duration
    options = [(5, 1), (2, 2), (3, 1), (4, 1), (7, 1), (9, milliseconds)]
    request = encode_number(1, milliseconds)
    request += encode(4, b"".join(encode_number(*option) for option in options))
    for field, text in ((5, root), (6, session), (7, name[: -len(SUFFIX)])):
        request += encode(field, os.fsencode(text))
    calls = [("/tensorflow.ProfilerService/Profile", request)]
    try:
        [answer] = asyncio.run(
            with_timeout(call("127.0.0.1", port, calls), seconds + WRITE_SECONDS)
        )
    except OSError:
        raise HostError(
            "CONFLICT",
            "No program here listens at port %d." % port,
            "The program must call jax.profiler.start_server(%d) first." % port,
        ) from None
    except asyncio.TimeoutError:
        raise HostError(
            "TIMEOUT", "The program at port %d wrote no trace in time." % port
        ) from None
    except NotGRPC:
        answer = None
    if answer is None or not os.path.isfile(path):
        raise HostError(
            "ENVIRONMENT",
            "The program on port %d wrote no trace." % port,
            "Check the number that the program gives to jax.profiler.start_server. One program "
            "can't be traced twice at the same time.",
        )


def _path(folder, name):
    return os.path.join(folder, name + SUFFIX)


@contextlib.contextmanager
def _own_folder():
    path = tempfile.mkdtemp(dir=private_dir("profiles"))
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def _remove_left(top, prefix=""):
    """Removes the folders in *top* that a killed trace has left."""
    for name in os.listdir(top):
        path = os.path.join(top, name)
        with contextlib.suppress(OSError):
            if name.startswith(prefix) and os.stat(path).st_mtime < time.time() - LEFTOVER_SECONDS:
                shutil.rmtree(path, ignore_errors=True)


def _written(folder):
    files = [
        os.path.join(top, name)
        for top, _, names in os.walk(folder)
        for name in names
        if name.endswith(SUFFIX)
    ]
    if not files:
        raise HostError("ENVIRONMENT", "The kernel was traced, but JAX wrote no trace.")
    return files[0]


CALLS: dict = {
    "make_folder": make_folder,
    "finish_run": finish_run,
    "trace": trace,
    "profile_memory": profile_memory,
}


def main():
    serve(CALLS)

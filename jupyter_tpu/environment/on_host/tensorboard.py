"""TensorBoard, which outlives the call that starts it; and traces of kernels for it to show."""

import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

from .paths import HOME, ROOT, environment_dir, exclusive_lock, private_dir
from .processes import clean_environment, run
from .protocol import HostError, emit

#: Seconds until it answers; its first start compiles a lot of Python.
START_TIMEOUT = 180
#: Seconds from SIGTERM to SIGKILL.
STOP_TIMEOUT = 10


def start_tensorboard(name, logdir):
    """Starts TensorBoard for a folder, unless it runs; returns when it answers."""
    logdir = log_folder(logdir)
    state_dir = _state_dir(logdir)
    with exclusive_lock("tensorboard-" + os.path.basename(state_dir)):
        state = _running(state_dir)
        reused = bool(state)
        if state:
            emit(log="TensorBoard is already running for %s" % logdir)
        else:
            state = _start(name, logdir, state_dir)
        _wait(state, state_dir)
    return {"port": state["port"], "logdir": logdir, "reused": reused}


def check_log_folder(logdir):
    """Refuses a folder that does not exist, unless a TensorBoard shows it already."""
    logdir = log_folder(logdir)
    if "://" in logdir or os.path.isdir(logdir) or _running(_state_dir(logdir)):
        return
    raise HostError(
        "NO_FOLDER",
        "The folder %s does not exist." % logdir,
        "Check its path. To open it before it exists, use `--allow-missing`.",
    )


def stop_tensorboard(logdir):
    """Stops the TensorBoard of a folder; all of them if it is None."""
    folders = _state_dirs() if logdir is None else [_state_dir(log_folder(logdir))]
    for state_dir in folders:
        state = _running(state_dir)
        if state:
            with contextlib.suppress(OSError):
                os.killpg(state["pid"], signal.SIGTERM)
            deadline = time.time() + STOP_TIMEOUT
            while _alive(state):
                if time.time() > deadline:
                    with contextlib.suppress(OSError):
                        os.killpg(state["pid"], signal.SIGKILL)
                time.sleep(0.05)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(state_dir, "state.json"))
    return {"ended": len(folders)}


def log_folder(logdir):
    if "://" in logdir:
        return logdir
    return os.path.normpath(os.path.join(HOME, os.path.expanduser(logdir)))


def _state_dirs():
    top = private_dir("tensorboard")
    return [os.path.join(top, name) for name in sorted(os.listdir(top))]


def _state_dir(logdir):
    """The folder with the state and the log of one TensorBoard."""
    state_dir = os.path.join(
        private_dir("tensorboard"), hashlib.sha256(os.fsencode(logdir)).hexdigest()[:16]
    )
    os.makedirs(state_dir, mode=0o700, exist_ok=True)
    return state_dir


def _running(state_dir):
    try:
        with open(os.path.join(state_dir, "state.json")) as file:
            state = json.load(file)
    except (OSError, ValueError):
        return None
    return state if _alive(state) else None


def _alive(state):
    return bool(state["born"]) and _born(state["pid"]) == state["born"]


def _born(pid):
    """The start time of a process, in the kernel's ticks; "" if it does not exist."""
    with contextlib.suppress(OSError, IndexError):
        with open("/proc/%d/stat" % pid, "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return "" if fields[0] == b"Z" else fields[19].decode()
    return ""


def _start(name, logdir, state_dir):
    python = os.path.join(environment_dir(name), "bin", "python")
    command = [python, "-m", "tensorboard.main", "--logdir", logdir, "--reload_interval", "5"]
    command += ["--host", "127.0.0.1", "--port", "0"]
    with open(os.path.join(state_dir, "log"), "wb") as log:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(clean_environment(), TMPDIR=state_dir),
            cwd=HOME,
            start_new_session=True,
        )
    state = {"pid": child.pid, "born": _born(child.pid), "logdir": logdir, "port": 0}
    _save(state, state_dir)
    emit(log="Starting TensorBoard for %s" % logdir)
    return state


def _save(state, state_dir):
    path = os.path.join(state_dir, "state.json")
    with open(path + ".new", "w") as file:
        json.dump(state, file)
    os.replace(path + ".new", path)


def _wait(state, state_dir):
    """Waits until it answers; its log names the port that it took."""
    deadline = time.time() + START_TIMEOUT
    while True:
        if not state["port"]:
            match = re.search(r"at http://[^\s/]+:(\d+)/", _log(state_dir))
            if match:
                state["port"] = int(match.group(1))
                _save(state, state_dir)
        if state["port"] and _answers(state["port"]):
            return
        if not _alive(state):
            lines = [line for line in _log(state_dir).splitlines() if line.strip()]
            for line in lines[-20:]:
                emit(log=line)
            raise HostError(
                "ENVIRONMENT",
                "TensorBoard ended when it was started: %s" % (lines[-1] if lines else "no output"),
                "The log has its full output.",
            )
        if time.time() > deadline:
            stop_tensorboard(state["logdir"])
            raise HostError("TIMEOUT", "TensorBoard did not answer within %d s." % START_TIMEOUT)
        time.sleep(0.1)


def _log(state_dir):
    with contextlib.suppress(OSError), open(
        os.path.join(state_dir, "log"), errors="replace"
    ) as file:
        return file.read()
    return ""


def _answers(port):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open("http://127.0.0.1:%d/" % port, timeout=10).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


#: Runs in the kernel, in a subshell (a thread beside the one that runs cells).
TRACE = """
import sys, time
if "jax" not in sys.modules:
    answer = "no jax"
else:
    import jax
    try:
        jax.profiler.start_trace(logdir)
        try:
            time.sleep(seconds)
        finally:
            jax.profiler.stop_trace()
        answer = "done"
    except RuntimeError as error:
        answer = str(error)
"""
#: Runs in the environment's Python: a client of the kernel.
CLIENT = """
import json, sys, time
from queue import Empty
from jupyter_client import BlockingKernelClient

arguments = json.loads(%r)
client = BlockingKernelClient(connection_file=arguments["connection"])
client.load_connection_file()
# No iopub: its messages are for the notebook.
client.start_channels(shell=True, iopub=False, stdin=False, hb=False, control=True)

def emit(**payload):
    print("captured " + json.dumps(payload), flush=True)

def wait_for_reply(channel, request, timeout):
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        try:
            message = channel.get_msg(timeout=max(0.05, deadline - time.monotonic()))
        except Empty:
            break
        if message["parent_header"].get("msg_id") == request["header"]["msg_id"]:
            return message["content"]
    return None

def send(channel, message_type, content, timeout, **header):
    request = client.session.msg(message_type, content)
    request["header"].update(header)
    channel.send(request)
    return wait_for_reply(channel, request, timeout)

created = send(client.control_channel, "create_subshell_request", {}, 10)
if not created or created.get("status") != "ok":
    emit(problem="no subshells")
    sys.exit()
subshell = created["subshell_id"]
try:
    expression = "(lambda d: exec(%%r, d) or d['answer'])(%%r)" %% (
        arguments["code"], {"logdir": arguments["logdir"], "seconds": arguments["seconds"]})
    content = {"code": "", "silent": True, "store_history": False, "allow_stdin": False,
               "stop_on_error": False, "user_expressions": {"it": expression}}
    print("tracing", flush=True)
    reply = send(client.shell_channel, "execute_request", content, arguments["seconds"] + 120,
                subshell_id=subshell)
    result = (reply or {}).get("user_expressions", {}).get("it", {})
    if result.get("status") == "ok":
        emit(answer=result["data"]["text/plain"])
    else:
        emit(problem=result.get("evalue") or "the kernel did not answer")
finally:
    send(client.control_channel, "delete_subshell_request", {"subshell_id": subshell}, 10)
"""


def trace(name, kernel, logdir, seconds):
    """Traces a kernel for some seconds; the trace is written below *logdir*."""
    logdir = log_folder(logdir)
    connection = _connection(kernel)
    arguments = {"connection": connection, "logdir": logdir, "seconds": seconds, "code": TRACE}
    os.makedirs(logdir, mode=0o700, exist_ok=True)
    before = _traces(logdir)
    emit(log="Tracing the kernel for %g s" % seconds)
    status, lines = run(
        [os.path.join(environment_dir(name), "bin", "python"), "-"],
        input=CLIENT % json.dumps(arguments),
        env=clean_environment(),
        timeout=seconds + 200,
        on_line=lambda line: None if line.startswith("captured ") else emit(log=line),
    )
    results = [
        json.loads(line[len("captured ") :]) for line in lines if line.startswith("captured ")
    ]
    problem = (
        results[-1].get("problem", "") if results else "its client ended with status %d" % status
    )
    answer = results[-1].get("answer", "").strip("'\"") if results else ""
    if problem == "no subshells":
        raise HostError(
            "ENVIRONMENT",
            "This kernel has no subshells, so it can't be traced while it runs cells.",
            "Install ipykernel 7 or newer in its environment, and restart the kernel.",
        )
    if answer == "no jax":
        raise HostError(
            "CONFLICT",
            "The kernel has not imported JAX, so there is nothing to trace.",
            "Run a cell that uses JAX, and capture a trace while it runs.",
        )
    if problem or answer != "done":
        raise HostError("ENVIRONMENT", "The kernel could not be traced: %s." % (problem or answer))
    traces = sorted(_traces(logdir) - before)
    if not traces:
        raise HostError("ENVIRONMENT", "The kernel was traced, but JAX wrote no trace.")
    for path in traces:
        emit(log="%s: %.1f MB" % (path, os.path.getsize(path) / 1e6))
    return {"logdir": logdir, "traces": traces}


def _connection(kernel):
    """The connection file of a kernel of our agent."""
    name = "k-" + hashlib.sha256(kernel.encode()).hexdigest()[:16]
    short = hashlib.sha256(os.fsencode(os.path.join(ROOT, "run"))).hexdigest()[:16]
    for run_folder in (
        os.path.join(ROOT, "run"),
        "/tmp/jupyter-tpu-%d-%s" % (os.getuid(), short),
    ):
        path = os.path.join(run_folder, name, "connection.json")
        if os.path.isfile(path) and os.stat(path).st_uid == os.getuid():
            return path
    raise HostError("NOT_FOUND", "The kernel has ended.")


def _traces(logdir):
    return {
        os.path.join(top, name)
        for top, _, names in os.walk(logdir)
        for name in names
        if name.endswith(".xplane.pb")
    }

"""TensorBoard, started beside whoever asked for it; and traces of kernels for it to show."""

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

#: Seconds that a TensorBoard may take to answer; its first start compiles a lot of Python.
ANSWERS = 180
STOPS = 10


def start_tensorboard(name, logdir):
    """Starts TensorBoard for a folder, or finds the one that runs; returns when it answers."""
    logdir = log_folder(logdir)
    place = _place(logdir)
    with exclusive_lock("tensorboard-" + os.path.basename(place)):
        state = _running(place)
        reused = bool(state)
        if state:
            emit(log="TensorBoard runs for %s already" % logdir)
        else:
            if "://" not in logdir and not os.path.isdir(logdir):
                emit(log="There is no folder %s yet; what is written there will show" % logdir)
            state = _start(name, logdir, place)
        _wait(state, place)
    return {"port": state["port"], "logdir": logdir, "reused": reused}


def stop_tensorboard(logdir):
    """Ends the TensorBoard of a folder; all of them if it is None."""
    places = _places() if logdir is None else [_place(log_folder(logdir))]
    for place in places:
        state = _running(place)
        if state:
            with contextlib.suppress(OSError):
                os.killpg(state["pid"], signal.SIGTERM)
            until = time.time() + STOPS
            while _alive(state):
                if time.time() > until:
                    with contextlib.suppress(OSError):
                        os.killpg(state["pid"], signal.SIGKILL)
                time.sleep(0.05)
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(place, "state.json"))
    return {"ended": len(places)}


def log_folder(logdir):
    if "://" in logdir:
        return logdir
    return os.path.normpath(os.path.join(HOME, os.path.expanduser(logdir)))


def _places():
    top = private_dir("tensorboard")
    return [os.path.join(top, name) for name in sorted(os.listdir(top))]


def _place(logdir):
    """What we keep of one TensorBoard: its state and its log."""
    place = os.path.join(
        private_dir("tensorboard"), hashlib.sha256(os.fsencode(logdir)).hexdigest()[:16]
    )
    os.makedirs(place, mode=0o700, exist_ok=True)
    return place


def _running(place):
    try:
        with open(os.path.join(place, "state.json")) as file:
            state = json.load(file)
    except (OSError, ValueError):
        return None
    return state if _alive(state) else None


def _alive(state):
    return bool(state["born"]) and _born(state["pid"]) == state["born"]


def _born(pid):
    """When a process was started, in the kernel's ticks; "" if there is none (any more)."""
    with contextlib.suppress(OSError, IndexError):
        with open("/proc/%d/stat" % pid, "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return "" if fields[0] == b"Z" else fields[19].decode()
    return ""


def _start(name, logdir, place):
    python = os.path.join(environment_dir(name), "bin", "python")
    command = [python, "-m", "tensorboard.main", "--logdir", logdir, "--reload_interval", "5"]
    command += ["--host", "127.0.0.1", "--port", "0"]
    with open(os.path.join(place, "log"), "wb") as log:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(clean_environment(), TMPDIR=place),
            cwd=HOME,
            start_new_session=True,
        )
    state = {"pid": child.pid, "born": _born(child.pid), "logdir": logdir, "port": 0}
    _save(state, place)
    emit(log="Starting TensorBoard for %s" % logdir)
    return state


def _save(state, place):
    path = os.path.join(place, "state.json")
    with open(path + ".new", "w") as file:
        json.dump(state, file)
    os.replace(path + ".new", path)


def _wait(state, place):
    """Until it answers; its log says the port that it took."""
    until = time.time() + ANSWERS
    while True:
        if not state["port"]:
            said = re.search(r"at http://[^\s/]+:(\d+)/", _log(place))
            if said:
                state["port"] = int(said.group(1))
                _save(state, place)
        if state["port"] and _answers(state["port"]):
            return
        if not _alive(state):
            lines = [line for line in _log(place).splitlines() if line.strip()]
            for line in lines[-20:]:
                emit(log=line)
            raise HostError(
                "ENVIRONMENT",
                "TensorBoard ended at its start: %s" % (lines[-1] if lines else "it said nothing"),
                "The log has all that it said.",
            )
        if time.time() > until:
            stop_tensorboard(state["logdir"])
            raise HostError("TIMEOUT", "TensorBoard did not answer within %d s." % ANSWERS)
        time.sleep(0.1)


def _log(place):
    with contextlib.suppress(OSError), open(os.path.join(place, "log"), errors="replace") as file:
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


#: Runs in the kernel, on a thread beside its cells (a subshell): what they do is traced.
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

order = json.loads(%r)
client = BlockingKernelClient(connection_file=order["connection"])
client.load_connection_file()
# No iopub: what the kernel says there is its notebook's.
client.start_channels(shell=True, iopub=False, stdin=False, hb=False, control=True)

def tell(**what):
    print("captured " + json.dumps(what), flush=True)

def answer(channel, request, patience):
    until = time.monotonic() + patience
    while time.monotonic() < until:
        try:
            message = channel.get_msg(timeout=max(0.05, until - time.monotonic()))
        except Empty:
            break
        if message["parent_header"].get("msg_id") == request["header"]["msg_id"]:
            return message["content"]
    return None

def ask(channel, kind, content, patience, **header):
    request = client.session.msg(kind, content)
    request["header"].update(header)
    channel.send(request)
    return answer(channel, request, patience)

made = ask(client.control_channel, "create_subshell_request", {}, 10)
if not made or made.get("status") != "ok":
    tell(problem="no subshells")
    sys.exit()
subshell = made["subshell_id"]
try:
    expression = "(lambda d: exec(%%r, d) or d['answer'])(%%r)" %% (
        order["code"], {"logdir": order["logdir"], "seconds": order["seconds"]})
    content = {"code": "", "silent": True, "store_history": False, "allow_stdin": False,
               "stop_on_error": False, "user_expressions": {"it": expression}}
    print("tracing", flush=True)
    reply = ask(client.shell_channel, "execute_request", content, order["seconds"] + 120,
                subshell_id=subshell)
    said = (reply or {}).get("user_expressions", {}).get("it", {})
    if said.get("status") == "ok":
        tell(answer=said["data"]["text/plain"])
    else:
        tell(problem=said.get("evalue") or "the kernel did not answer")
finally:
    ask(client.control_channel, "delete_subshell_request", {"subshell_id": subshell}, 10)
"""


def trace(name, kernel, logdir, seconds):
    """Traces what a kernel does for some seconds; the trace is below *logdir*."""
    logdir = log_folder(logdir)
    connection = _connection(kernel)
    order = {"connection": connection, "logdir": logdir, "seconds": seconds, "code": TRACE}
    os.makedirs(logdir, mode=0o700, exist_ok=True)
    before = _traces(logdir)
    emit(log="Tracing the kernel for %g s" % seconds)
    status, lines = run(
        [os.path.join(environment_dir(name), "bin", "python"), "-"],
        input=CLIENT % json.dumps(order),
        env=clean_environment(),
        timeout=seconds + 200,
        on_line=lambda line: None if line.startswith("captured ") else emit(log=line),
    )
    said = [json.loads(line[len("captured ") :]) for line in lines if line.startswith("captured ")]
    problem = said[-1].get("problem", "") if said else "its client ended with status %d" % status
    answer = said[-1].get("answer", "").strip("'\"") if said else ""
    if problem == "no subshells":
        raise HostError(
            "ENVIRONMENT",
            "The kernel can do one thing at a time only, so that nothing could be traced.",
            "Give its environment ipykernel 7 or newer, and restart the kernel.",
        )
    if answer == "no jax":
        raise HostError(
            "CONFLICT",
            "The kernel has not imported JAX: there is nothing to trace.",
            "Run a cell that uses JAX, and capture while it runs.",
        )
    if problem or answer != "done":
        raise HostError("ENVIRONMENT", "The kernel could not be traced: %s." % (problem or answer))
    made = sorted(_traces(logdir) - before)
    if not made:
        raise HostError("ENVIRONMENT", "The kernel was traced, but JAX wrote no trace.")
    for path in made:
        emit(log="%s: %.1f MB" % (path, os.path.getsize(path) / 1e6))
    return {"logdir": logdir, "traces": made}


def _connection(kernel):
    """The connection file of a kernel that our agent keeps."""
    name = "k-" + hashlib.sha256(kernel.encode()).hexdigest()[:16]
    short = hashlib.sha256(os.fsencode(os.path.join(ROOT, "run"))).hexdigest()[:16]
    for run_folder in (
        os.path.join(ROOT, "run"),
        "/tmp/jupyter-tpu-%d-%s" % (os.getuid(), short),
    ):
        path = os.path.join(run_folder, name, "connection.json")
        if os.path.isfile(path) and os.stat(path).st_uid == os.getuid():
            return path
    raise HostError("NOT_FOUND", "That kernel does not run here any more.")


def _traces(logdir):
    return {
        os.path.join(top, name)
        for top, _, names in os.walk(logdir)
        for name in names
        if name.endswith(".xplane.pb")
    }

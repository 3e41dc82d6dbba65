"""TensorBoard, which outlives the call that starts it."""

import contextlib
import glob
import hashlib
import json
import os
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request

from ..calls.paths import HOME, environment_dir, exclusive_lock, private_dir, write_file
from ..calls.processes import clean_environment, serve
from ..calls.protocol import HostError, emit

#: Seconds until it answers; its first start compiles a lot of Python.
START_TIMEOUT = 180
#: Seconds from SIGTERM to SIGKILL.
STOP_TIMEOUT = 10
#: How the names of traces end.
TRACES = ".xplane.pb"


def start_tensorboard(name, logdir):
    """Starts TensorBoard for a folder, unless it runs; returns when it answers."""
    logdir = log_folder(logdir)
    forget_outdated(logdir)
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


def forget_outdated(logdir):
    """Deletes what xprof has computed of all hosts of a run, if a trace came into the run later.

    It keeps that in the run's folder, and would show the first hosts for ever (seen: 2.24.2).
    """
    for place in ("plugins/profile/*", "*/plugins/profile/*"):
        for run in glob.glob(os.path.join(glob.escape(logdir), place)):
            with contextlib.suppress(OSError):
                traces = glob.glob(os.path.join(glob.escape(run), "*" + TRACES))
                newest = max([os.stat(path).st_ctime for path in traces], default=0.0)
                for path in glob.glob(os.path.join(glob.escape(run), "ALL_HOSTS.*")):
                    if os.stat(path).st_mtime < newest:
                        os.unlink(path)


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
    write_file(os.path.join(state_dir, "state.json"), json.dumps(state))


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


CALLS: dict = {
    "check_log_folder": check_log_folder,
    "start_tensorboard": start_tensorboard,
    "stop_tensorboard": stop_tensorboard,
}


def main():
    serve(CALLS)

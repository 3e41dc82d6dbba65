"""Where the processes of a job are: the Python stack of each, or what the system says about it.

A process is asked in up to three ways. Most Pythons of a job answer a signal themselves, in C, so
that neither the GIL nor a loop in a library keeps them from it (`in_job`). Else py-spy looks
into it, if the job's environment has that, and if it may; it stops the process meanwhile. Else
there is what /proc says. Nothing is changed in any process. All of this takes some time; call it
on a thread.
"""

from __future__ import annotations

import contextlib
import json
import linecache
import os
import re
import shutil
import signal
import stat
import subprocess
import time
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from ..protocol.chips import command_of, holders
from ..protocol.process_tree import descendants
from ..protocol.processes import signal_process, start_time
from ..protocol.records import ProcessStack, StackFrame

#: A real-time signal that libraries do not use. It is sent only to a process that handles it.
STACK_SIGNAL = signal.SIGRTMIN + 11
#: The beginning of the former names of the files in which Pythons write their stacks.
STACK_FILE = "/dev/shm/jupyter-tpu-stack-"
#: The variable that has both, for `in_job`.
STACKS = "JUPYTER_TPU_STACKS"
#: So many processes are looked into, and others are counted.
MOST_PROCESSES = 16
#: So many are looked at, if none of them is a Python.
MOST_LOOKED_AT = 100
#: Seconds for one process to answer, for py-spy, and for all processes of a job.
SIGNAL_SECONDS, PY_SPY_SECONDS, ALL_SECONDS = 0.5, 3.0, 6.0
#: Seconds between two looks at an answer, which is complete when two have found the same.
LOOK_SECONDS = 0.01
#: Bytes of an answer, and of a file of which a line is shown.
ANSWER_BYTES, SOURCE_BYTES = 1 << 20, 4 << 20
_THREAD = re.compile(r"(?:Current thread|Thread) 0x([0-9a-f]+).*\(most recent call first\):$")
_DISTRIBUTED = os.path.join("jax", "_src", "distributed.py")
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)$')
#: The first letter of the state of a process, and what that is.
_STATES = {"R": "running", "S": "waiting", "D": "blocked", "T": "stopped", "t": "traced",
           "I": "waiting"}  # fmt: skip


def stack_variables(environment: Mapping[str, str]) -> Dict[str, str]:
    """Further variables of a job with this *environment*, by which its Pythons answer; none if it
    has an empty JUPYTER_TPU_STACKS.
    """
    if environment.get(STACKS) == "":
        return {}
    folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), "in_job")
    path = environment.get("PYTHONPATH", "")
    return {
        "PYTHONPATH": os.pathsep.join([folder, path] if path else [folder]),
        STACKS: "%d:%s" % (STACK_SIGNAL, STACK_FILE),
    }


class JobProcesses(NamedTuple):
    """more: how many were left out. has_all_chips: no other process holds chips here."""

    processes: List[ProcessStack]
    more: int
    has_all_chips: bool


def job_processes(root: int) -> JobProcesses:
    """Those of the job that the process *root* keeps.

    Those that hold chips; if there are none, its Pythons; if there are none, those that have
    started no other.
    """
    pids = descendants(root)
    holding = {holder["pid"] for holder in holders()}
    held = holding & set(pids)
    chosen = [pid for pid in pids if pid in held]
    chosen = chosen or [pid for pid in pids if _stack_file(pid) or _is_python(pid)]
    # A shell waits for what it has started.
    chosen = chosen or [pid for pid in pids[:MOST_LOOKED_AT] if not descendants(pid)]
    deadline = time.monotonic() + ALL_SECONDS
    shown = [_process(pid, pid in held, deadline) for pid in chosen[:MOST_PROCESSES]]
    processes = [process for process in shown if process is not None]
    return JobProcesses(processes, len(chosen[MOST_PROCESSES:]), bool(held) and held == holding)


def is_leaving(root: int) -> bool:
    """Whether the program of the job that the process *root* keeps has ended by an exception, and
    waits for other hosts in `jax.distributed.shutdown`, as JAX lets it at its end.
    """
    for pid in descendants(root):
        if _stack_file(pid):  # the first Python: others may fail without harm
            with contextlib.suppress(OSError):
                links = [os.readlink(entry.path) for entry in os.scandir("/proc/%d/fd" % pid)]
                if sum(link.startswith(STACK_FILE) for link in links) > 1:
                    frames, _ = _ask_by_signal(pid, start_time(pid), _state(pid))
                    return any(frame["file"].endswith(_DISTRIBUTED) for frame in frames)
            return False
    return False


def _process(pid: int, has_chips: bool, deadline: float) -> Optional[ProcessStack]:
    """None if it has ended."""
    start, state = start_time(pid), _state(pid)
    frames: List[StackFrame] = []
    source: Any = "proc"
    problem = ""
    if time.monotonic() > deadline:
        problem = "the other processes took too long"
    else:
        for name, ask in (("faulthandler", _ask_by_signal), ("py-spy", _ask_py_spy)):
            answer, why = ask(pid, start, state)
            frames = _chosen(pid, answer)
            problem = "; ".join(filter(None, [problem, why]))
            if frames:
                source = name
                break
    if not start or start_time(pid) != start:
        return None
    return {
        "pid": pid,
        "command": command_of("/proc/%d" % pid),
        "chips": has_chips,
        "state": _STATES.get(state, ""),
        "call": _system_call(pid),
        "source": source,
        "problem": "" if frames else problem,
        "frames": frames,
    }


def _chosen(pid: int, frames: List[Dict[str, Any]]) -> List[StackFrame]:
    """The user's frames, the innermost first, and then the innermost of all; as of a pod's cell."""
    from .pod_member import MOST_FRAMES  # it loads what the daemon seldom needs

    users = [frame for frame in frames if _is_users(frame)][:MOST_FRAMES]
    return [
        {
            "file": frame["file"][-300:],
            "line": frame["line"],
            "function": frame["function"][:200],
            "text": _source_line(pid, frame) if frame in users[:1] else "",
        }
        for frame in [*users, *frames[:1]]
    ]


def _is_users(frame: Dict[str, Any]) -> bool:
    from .pod_member import is_user_code

    return is_user_code(frame["file"]) or (
        frame["file"] in ("<string>", "<stdin>") and frame["function"] == "<module>"
    )


def _source_line(pid: int, frame: Dict[str, Any]) -> str:
    """The line of a file, which may be relative to the folder of the process."""
    with contextlib.suppress(OSError, ValueError):
        path = os.path.join(os.readlink("/proc/%d/cwd" % pid), frame["file"])
        facts = os.stat(path)
        if stat.S_ISREG(facts.st_mode) and facts.st_size <= SOURCE_BYTES:
            linecache.checkcache(path)
            return linecache.getline(path, frame["line"]).strip()[:300]
    return ""


# ---- a Python that answers itself


def _stack_file(pid: int) -> Optional[Tuple[str, str]]:
    """Where a process writes its stack, as a path, and the former name of the file."""
    folder = "/proc/%d/fd" % pid
    with contextlib.suppress(OSError):  # it has ended, or belongs to another user
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                link = os.readlink(os.path.join(folder, name))
                if link.startswith(STACK_FILE):
                    return os.path.join(folder, name), link
    return None


def _ask_by_signal(pid: int, start: str, state: str) -> Tuple[List[Dict[str, Any]], str]:
    """The frames of its main thread, the innermost first, or why there are none."""
    place = _stack_file(pid)
    if place is None or not _handles(pid, STACK_SIGNAL):
        return [], ""
    if state in "Tt":
        return [], "it is stopped"
    path, name = place
    main = name[len(STACK_FILE) :].partition("-")[2].partition(" ")[0]
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        return [], str(error)
    try:
        os.ftruncate(file, 0)
        if not signal_process(pid, start, STACK_SIGNAL):
            return [], ""
        return _answer_frames(file, main), "it does not answer a signal"
    finally:
        os.close(file)


def _answer_frames(file: int, main: str) -> List[Dict[str, Any]]:
    text = b""
    deadline = time.monotonic() + SIGNAL_SECONDS
    while time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
        before, text = text, os.pread(file, ANSWER_BYTES, 0)
        if text and text == before:
            frames = parse_stack(text.decode("utf-8", "replace"), main)
            if frames:
                return frames
    return []


def parse_stack(text: str, main: str) -> List[Dict[str, Any]]:
    """The frames of the thread *main*, in what faulthandler writes; of the last one if there is no
    such thread. A program's main thread is that, since the newest one comes first.
    """
    threads: Dict[str, List[Dict[str, Any]]] = {}
    frames: List[Dict[str, Any]] = []
    for line in text.split("\n"):
        thread = _THREAD.match(line)
        frame = _FRAME.match(line)
        if thread:
            frames = threads.setdefault(thread.group(1).lstrip("0"), [])
        elif frame:
            file, number, function = frame.groups()
            frames.append({"file": file, "line": int(number[:9]), "function": function})
    return threads.get(main.lstrip("0"), frames)


def _handles(pid: int, number: int) -> bool:
    """Whether a process handles a signal, which would end it otherwise."""
    caught = 0
    with contextlib.suppress(OSError, ValueError), open("/proc/%d/status" % pid) as file:
        for line in file:
            if line.startswith("SigCgt:"):
                caught = int(line.split()[1], 16)
    return bool(caught >> (number - 1) & 1)


# ---- py-spy


def _is_python(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return os.path.basename(os.readlink("/proc/%d/exe" % pid)).startswith("python")
    return False


def _ask_py_spy(pid: int, start: str, state: str) -> Tuple[List[Dict[str, Any]], str]:
    """As :func:`_ask_by_signal`. Often only root may look into what is not its own child."""
    if not _is_python(pid):
        return [], ""
    program = shutil.which("py-spy", path=_variable(pid, "PATH"))
    if program is None:
        return [], "py-spy is not installed"
    command = [program, "dump", "--json", "--nonblocking", "--pid", str(pid)]
    problem = ""
    for words in (command, ["sudo", "-n", *command])[: 1 if os.getuid() == 0 else 2]:
        try:
            done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True,
                                  start_new_session=True, timeout=PY_SPY_SECONDS)  # fmt: skip
            threads = json.loads(done.stdout or b"null")
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            problem = problem or str(error)
            continue
        frames = list(_py_spy_frames(threads, pid))
        if frames:
            return frames, ""
        lines = done.stderr.decode("utf-8", "replace").strip().split("\n")
        problem = problem or lines[0]
    return [], "py-spy: %s" % problem[:200]


def _py_spy_frames(threads: Any, pid: int) -> Iterator[Dict[str, Any]]:
    for thread in threads or []:
        if thread.get("os_thread_id") in (pid, None) or len(threads) == 1:
            for frame in thread["frames"]:
                name, file, line = frame["name"], frame["filename"], frame["line"]
                yield {"file": str(file), "line": int(line), "function": str(name)}
            return


def _variable(pid: int, name: str) -> Optional[str]:
    with contextlib.suppress(OSError), open("/proc/%d/environ" % pid, "rb") as file:
        for variable in file.read(1 << 20).split(b"\0"):
            if variable.startswith(b"%s=" % name.encode()):
                return os.fsdecode(variable.partition(b"=")[2])
    return None


# ---- what the system says


def _state(pid: int) -> str:
    """That of its main thread, as a letter; "" if it has ended."""
    with contextlib.suppress(OSError), open("/proc/%d/task/%d/stat" % (pid, pid), "rb") as file:
        return file.read().rpartition(b")")[2].split()[0].decode()
    return ""


def _system_call(pid: int) -> str:
    """The function of the kernel in which its main thread waits, such as "futex_wait_queue"."""
    with contextlib.suppress(OSError), open("/proc/%d/wchan" % pid) as file:
        name = file.read(64)
        return name if name.isidentifier() else ""
    return ""

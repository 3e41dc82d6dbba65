"""What a new host does automatically, if no one connects to it: its guard, its environment, and a
job.

Its startup script runs this at each boot, as the login user. It is done when the job has been
started once. Whoever connects meanwhile does the same with the same locks, and starts the job under
the same id, which the daemon starts once.
"""

import base64
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import time
from typing import Any

from ..agent.protocol import requests
from ..agent.protocol.paths import BARE
from ..calls import protocol
from ..calls.archive import zipped
from ..calls.paths import environment_dir, exclusive_lock, private_dir, write_file
from ..calls.processes import clean_environment
from ..calls.protocol import HostError, emit
from ..environments.host_setup import OPTIONAL, STEPS, apply_setup, setup_states
from ..environments.probe import environment_python, pythons
from ..environments.resolution import resolve
from ..environments.uv import get_uv
from ..environments.virtualenv import create_venv, install_packages
from ..ssh.install_agent import unpack

#: Pauses after what failed, such as a network that is not up yet; seconds. Then it is given up.
PAUSES = (10, 20, 60, 120, 300, 600, 1200)
#: Seconds for one answer of the agent.
ANSWER_SECONDS = 120.0


def main():
    request = json.load(sys.stdin)
    protocol.plain = True  # what it says goes to the log of startup scripts
    done = os.path.join(private_dir("unattended"), request["job"])
    if os.path.exists(done):
        return emit(log="The job %s was started before" % request["job"])
    steps = [] if request["guard"] is None else [set_guard]
    steps += [start] if request["command"] else []
    for pause in (*PAUSES, None):
        steps = [step for step in steps if not is_done(step, request)]
        if not steps:
            return write_file(done, "")
        if pause is not None:
            emit(log="Trying again in %d seconds" % pause)
            time.sleep(pause)
    sys.exit(1)


def is_done(step, request):
    """Whether *step* could be done. What was done before is not done again."""
    try:
        step(request, OwnDaemon(**request["agent"]))
    except (HostError, OSError, ValueError, subprocess.SubprocessError) as error:
        emit(log="%s failed: %s" % (step.__doc__, error))
        return False
    return True


def whole(files):
    """With the texts of those that are modules of this program, which are sent once: None."""
    own: Any = __spec__.loader  # `boot.program.Sources`
    return {
        name: own.get_source(name[: -len(".py")].replace("/", ".")) if text is None else text
        for name, text in files.items()
    }


def start(request, agent):
    """Starting the job"""
    python = request["python_path"] or prepare(**request["environment"])
    with exclusive_lock(request["environment"]["name"]):  # no one checks its chips now
        job = requests.StartJobRequest(
            id=request["job"] + "-1",
            argv=["sh", "-c", request["command"]],
            env={"JUPYTER_TPU_HOST": host_number()},
            python=python,
        )
        agent.request(job)
    emit(log="Started the job %s" % request["job"])


def set_guard(request, agent):
    """Setting the guard"""
    number = int(host_number())
    rule = dict(request["guard"]["others" if number else "first"] or {})
    if rule and agent.request(requests.GetGuardRequest())["guard"] is None:
        seconds = rule.pop("cost_seconds", None)
        rule["cost_until"] = None if seconds is None else time.time() + seconds
        agent.request(requests.SetGuardRequest(**rule, worker=number))


def prepare(name, python, usual, requirements, index, lock, resolve_again, packages, jaxkit, setup):
    """Creates an environment as `environment.create` does, without its check; the path of its
    Python. *python*: a version, "" for the newest in *usual* (the oldest and the newest that JAX
    supports, and the one that is downloaded where there is none, or only older ones).
    *resolve_again*: whether another version may be taken, without the *lock* that is for *python*.
    """
    path = environment_dir(name)
    apply(setup, ("apt", "timezone"), name)
    uv = get_uv()["uv"]
    if not environment_python(path):
        try:
            create(uv, name, choose(python, usual))
        except HostError as error:
            if not (python and resolve_again) or error.payload[0] != "NO_SUCH_PYTHON":
                raise
            emit(log="Python %s can't be had, so new versions are chosen" % python)
            lock = ""
            create(uv, name, choose("", usual))
    exact = resolve(uv, name, requirements, lock)["lock"]
    if jaxkit is not None:
        archive = base64.b64encode(zipped(whole(jaxkit["files"]), 1)).decode()
        jaxkit = jaxkit["hash"], archive
    install_packages(uv, name, "\n".join([*index, exact]), packages, jaxkit)
    apply(setup, ("oh_my_zsh", "script"), name)
    return os.path.join(path, "bin", "python")


def apply(setup, keys, name):
    requested = {key: value for key, value in setup.items() if key in keys}
    states = setup_states(requested, environment_dir(name))
    for key in STEPS:
        if states.get(key) == "needed":
            try:
                apply_setup(key, requested[key], name, host_number())
            except HostError as error:
                if key not in OPTIONAL:
                    raise
                emit(log="Warning: %s" % error)


def create(uv, name, pythons):
    """Creates the environment with the first of *pythons* that can be had."""
    for python in pythons[:-1]:
        try:
            create_venv(uv, name, python)
            return
        except HostError as error:
            if error.payload[0] != "NO_SUCH_PYTHON":
                raise
            emit(log="uv could not download Python %s" % python)
    create_venv(uv, name, pythons[-1])


def choose(requested, usual):
    """The paths of Pythons that are here, and the version for uv to download: the best first."""
    installed = pythons()
    oldest, newest, downloaded = usual

    def fits(version):
        if requested:
            return version == requested or version.startswith(requested + ".")
        return oldest <= numbers(version)[:2] <= newest

    fitting = [version for version in installed if fits(version)]
    if not fitting:
        return [requested or downloaded]
    best = max(fitting, key=numbers)
    old = not requested and numbers(best)[:2] < numbers(downloaded)[:2]
    return [*([downloaded] if old else []), installed[best]]


def numbers(version):
    return [int(number) for number in version.split(".")]


def host_number():
    """The number of this host in its TPU, as jobs have it."""
    host_number = os.environ.get("TPU_WORKER_ID", "")  # on emulated hosts
    if not host_number:
        import urllib.request

        host = os.environ.get("GCE_METADATA_HOST", "metadata.google.internal")
        url = "http://%s/computeMetadata/v1/instance/attributes/agent-worker-number" % host
        asked = urllib.request.Request(url, headers={"Metadata-Flavor": "Google"})
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with direct.open(asked, timeout=20) as answer:
            host_number = answer.read().decode()
    if not re.match(r"\d+$", host_number):
        raise ValueError("the metadata server does not say which host this is: %r" % host_number)
    return host_number


class OwnDaemon:
    """The daemon of this host; installed if it is not there.

    hash, files: of its sources.
    """

    def __init__(self, hash, files):
        folder = unpack(hash, zipped(whole(files), 1))
        command = [sys.executable, *BARE, folder, "up"]
        run = {"check": True, "env": clean_environment()}
        up = subprocess.run(command, stdout=subprocess.PIPE, **run)
        self._path = json.loads(up.stdout)["socket"]

    def request(self, request):
        """The daemon's answer; raises HostError with its own words."""
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as line:
            line.settimeout(ANSWER_SECONDS)
            line.connect(self._path)
            message = {"id": 1, "op": request.op, "params": request.params}
            line.sendall(json.dumps(message).encode() + b"\n")
            for answer_line in line.makefile("rb"):
                answer = json.loads(answer_line)
                if answer.get("id") == 1:
                    break
            else:
                raise OSError("the daemon ended")
        if "error" in answer:
            error = answer["error"]
            raise HostError(error["reason"], error["message"], error.get("hint", ""))
        return answer["result"]

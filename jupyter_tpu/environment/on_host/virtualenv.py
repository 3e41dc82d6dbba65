"""The virtual environment: created, filled, verified, marked as complete."""

import contextlib
import json
import os
import re
import shutil

from .paths import environment_dir, exclusive_lock
from .probe import MARKER, chips, environment_python
from .processes import clean_environment, run
from .protocol import HostError, disk_full, emit
from .uv import index_url


def uv_environment():
    """The variables for uv; pip's where uv has none of its own."""
    env = clean_environment()
    if not any(env.get(name) for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL")):
        index = index_url()
        if index != "https://pypi.org/simple":
            env["UV_DEFAULT_INDEX"] = index
    for name in ("PIP_CERT", "REQUESTS_CA_BUNDLE"):
        if os.path.isfile(env.get(name, "")):
            env.setdefault("SSL_CERT_FILE", env[name])
    return env


def create_venv(uv, name, python):
    """Creates the environment unless it exists; *python* is a path or a version to download."""
    path = environment_dir(name)
    with exclusive_lock(name):
        existing = environment_python(path)
        if existing:
            emit(log="The environment exists, with Python %s" % existing)
            return {"python": existing, "path": path}
        if os.path.lexists(path):
            emit(log="The environment at %s is incomplete; creating it again" % path)
            shutil.rmtree(path)
        status, lines = run(
            [uv, "venv", "--no-project", "--python", python, path],
            env=uv_environment(),
            timeout=900,
            on_line=lambda line: emit(log=line),
        )
        if status:
            raise uv_error("Creating the environment", lines)
        return {"python": environment_python(path), "path": path}


def install_packages(uv, name, requirements):
    path = environment_dir(name)
    with exclusive_lock(name):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(path, MARKER))  # until it is verified again
        counter = Counter()
        status, lines = run(
            [uv, "pip", "install", "--python", os.path.join(path, "bin", "python"), "-r", "-"],
            input=requirements,
            env=uv_environment(),
            timeout=7200,
            on_line=counter.line,
        )
        if status:
            raise uv_error("Installing packages", lines)
    return {}


class Counter:
    """uv's lines as log and as progress: resolve, download, unpack, install."""

    def __init__(self):
        self.started = self.finished = 0

    def line(self, line):
        emit(log=line)
        text = line.strip()
        if text.startswith("Resolved "):
            emit(part=0.1)
        elif text.startswith(("Downloading ", "Building ")):
            self.started += 1
        elif text.startswith(("Downloaded ", "Built ")):
            self.finished += 1
            emit(part=round(0.1 + 0.7 * self.finished / max(self.started, self.finished + 1), 2))
        elif text.startswith("Prepared "):
            emit(part=0.85)
        elif text.startswith(("Installed ", "Audited ", "Checked ")):
            emit(part=1)


def uv_error(action, lines):
    text = "\n".join(lines)
    if re.search(r"[Nn]o space left on device|os error 28|[Dd]isk quota exceeded", text):
        return disk_full("%s needs more" % action.lower())
    if re.search(
        r"No interpreter found|No download found|python.*(could not|failed).*download", text
    ):
        return HostError("NO_SUCH_PYTHON", "")
    wanted = [line.strip(" ×╰─▶│") for line in lines if line.strip()]
    wanted = [line for line in wanted if not line.startswith(("hint:", "warning:", "Using "))]
    reason = " ".join(wanted[-6:]) if wanted else "uv gave no reason"
    reason = re.sub(r"\s+", " ", reason)
    reason = re.sub(r"^error: ", "", reason).replace(" cause: ", ": ")
    if "No solution found" in reason:  # the same request would fail again
        hint = "Connect again and name the packages you want, or only jax. They replace these."
    else:
        hint = "Fix the problem and connect again. It continues where it stopped."
    return HostError(
        "ENVIRONMENT",
        "%s failed: %s" % (action, reason if len(reason) < 600 else reason[:600] + "…"),
        "The log has uv's full output. " + hint,
    )


VERIFY = r"""
import json, sys
found = {"python": "%d.%d.%d" % sys.version_info[:3]}
try:
    from importlib.metadata import distributions
    found["packages"] = {d.metadata["Name"].lower(): d.version for d in distributions()}
    import ipykernel, zmq, jax
    found["jax"] = jax.__version__
    try:
        found["platform"] = jax.default_backend()
        found["devices"] = jax.local_device_count()
    except RuntimeError as error:
        found["backend_error"] = str(error)
except Exception as error:
    found["error"] = "%s: %s" % (type(error).__name__, error)
print("verified " + json.dumps(found))
"""


def verify(name, variables):
    """What JAX sees in the environment's Python; *variables* are for that process."""
    path = environment_dir(name)
    env = dict(clean_environment(), **variables)
    # What is compiled here goes where the kernels look for it; -I ignores the variable.
    bytecode = os.environ.get("PYTHONPYCACHEPREFIX")
    options = ["-X", "pycache_prefix=" + bytecode] if bytecode else []
    status, lines = run(
        [os.path.join(path, "bin", "python"), "-I", *options, "-c", VERIFY],
        env=env,
        timeout=300,
        on_line=lambda line: None if line.startswith("verified ") else emit(log=line),
    )
    for line in lines:
        if line.startswith("verified "):
            return dict(json.loads(line[len("verified ") :]), chips=chips())
    last = next((line for line in reversed(lines) if line.strip()), "no output")
    raise HostError(
        "ENVIRONMENT",
        "The environment's Python ended with status %d during the check: %s" % (status, last),
        "The log has details.",
    )


def write_marker(name, content):
    """Marks the environment as verified."""
    path = os.path.join(environment_dir(name), MARKER)
    with open(path + ".new", "w") as file:
        json.dump(content, file)
    os.replace(path + ".new", path)
    return {}

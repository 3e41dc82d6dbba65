"""The virtual environment: created, filled with packages, verified, marked as complete."""

import base64
import contextlib
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

from ..agent.protocol.process_env import process_environment
from ..calls.archive import unpack
from ..calls.paths import MARKER, environment_dir, exclusive_lock, write_file
from ..calls.processes import run, text_of
from ..calls.protocol import HostError, emit
from ..chips.holders import hardware
from ..in_environment import verify as verification
from .commands import install_commands
from .imports import failed_imports
from .packages import drop_incomplete, own_indexes, record, requested, site_packages, uv_pip
from .probe import environment_python
from .uv import uv_environment, uv_error


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


def install_packages(uv, name, requirements, packages=(), jaxkit=None):
    """Installs *requirements* and the commands; records *packages*, the user's part of them.

    jaxkit: its digest and archive for `install_jaxkit`; None: not in this environment.
    """
    path = environment_dir(name)
    with exclusive_lock(name):
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(path, MARKER))  # until it is verified again
        drop_incomplete(path)
        uv_pip(uv, path, "install", input=requirements, on_line=Counter().line)
        install_commands(path)
        if jaxkit is not None:
            install_jaxkit(path, *jaxkit)
        return record(path, packages, installed_from=own_indexes(requirements.splitlines()))


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


def verify(name, variables, python="", asked=None, locked=(), start="start"):
    """What JAX or PyTorch sees in the environment's Python, and what there is to see; see
    `check_python`.

    asked, locked: requirements whose packages are imported meanwhile, in addition to what the
    environment has recorded, see `failed_imports`; None: nothing is.
    """
    # No job that waits for the environment takes the chips meanwhile.
    with exclusive_lock(name) if name else contextlib.nullcontext(), ThreadPoolExecutor(1) as pool:
        before = hardware()
        imports = (
            None
            if asked is None
            else pool.submit(
                try_imports, name, [*asked, *requested(environment_dir(name))["packages"]], locked
            )
        )
        found = check_python(name, variables, start, python=python)
        failures = imports.result() if imports else []
        return dict(found, hardware=before, failed_imports=failures)


def try_imports(name, asked=None, locked=()):
    """See `failed_imports`. asked: None: what the environment has recorded."""
    path = environment_dir(name)
    asked = requested(path)["packages"] if asked is None else asked
    return failed_imports(path, _python(name), asked, locked)


def check_python(name, variables, start="start", python=""):
    """The versions in an environment, and what JAX or PyTorch sees in it if it may be started: see
    `in_environment.verify` for *start*.

    *variables* are set for that process, as they are for kernels. *python* is that of an
    environment which was found on the host: nothing is written there, and what is in ~/.local
    belongs to it.
    """
    command, env = _python(name, variables) if not python else (
        [python, "-B"], process_environment(python, variables))  # fmt: skip
    status, lines = run(
        [*command, "-c", text_of(verification), start],
        env=env,
        timeout=300,
        on_line=lambda line: None if line.startswith("verified ") else emit(log=line),
    )
    for line in lines:
        if line.startswith("verified "):
            loads: dict = json.loads(line[len("verified ") :])
            return loads
    last = next((line for line in reversed(lines) if line.strip()), "no output")
    raise HostError(
        "ENVIRONMENT",
        "The environment's Python ended with status %d during the check: %s" % (status, last),
        "The log has details.",
    )


def _python(name, variables=None):
    """(The environment's Python with options, the variables of its processes)."""
    python = os.path.join(environment_dir(name), "bin", "python")
    # What is compiled here goes where the kernels look for it; -I ignores the variable.
    bytecode = os.environ.get("PYTHONPYCACHEPREFIX")
    options = ["-I", *(["-X", "pycache_prefix=" + bytecode] if bytecode else [])]
    return [python, *options], process_environment(python, variables)


def write_marker(name, content):
    """Marks the environment as verified."""
    path = os.path.join(environment_dir(name), MARKER)
    write_file(path, json.dumps(content))
    return {}


def remove(name):
    """Removes the environment, if it is there."""
    path = environment_dir(name)
    with exclusive_lock(name):
        if os.path.lexists(path):
            shutil.rmtree(path)
    return {}


PACKAGE = "jupyter_tpu_jaxkit"


def install_jaxkit(path, digest, archive):
    """Puts jaxkit's sources into the environment at *path*; *archive* is `Bundle.data`
    in base64.

    They come after the packages, so a jupyter-tpu that the user installs there is the one that is
    used. Each version has a folder of its own: running kernels keep theirs.
    """
    site = site_packages(path)
    name = "%s_%s" % (PACKAGE, digest)
    folder = os.path.join(site, name)
    if not os.path.isdir(folder):
        part = folder + ".part"
        shutil.rmtree(part, ignore_errors=True)
        unpack(base64.b64decode(archive), part)
        os.rename(part, folder)
    write_file(os.path.join(site, PACKAGE + ".pth"), name + "\n")

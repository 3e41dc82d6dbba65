"""Pythons that were on the host before us: which there are, and one made ready for kernels.

Nothing is written into one but ipykernel and what that needs, and only where someone agreed.
"""

import json
import os
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor

from ..calls.paths import HOME, exclusive_lock, private_dir
from ..calls.processes import clean_environment, run, text_of
from ..calls.protocol import HostError
from ..in_environment import describe as describing
from .packages import uv_pip
from .probe import environment_folders, installed_pythons, is_ours

#: More are not listed.
_MOST_PYTHONS = 100

#: What is installed, so that it stays as it is.
_INSTALLED = r"""
from importlib.metadata import distributions
for each in distributions():
    print("installed", each.metadata["Name"], each.version)
"""


def found_pythons(path=""):
    """[description] of the Pythons on this host, and of the one at *path*; see `describe`."""
    asked = interpreter(path) if path else ""
    paths = [asked, *map(_python_in, environment_folders()), *installed_pythons()]
    with ThreadPoolExecutor(8) as pool:
        described = list(
            pool.map(describe, list(dict.fromkeys(filter(None, paths)))[:_MOST_PYTHONS])
        )
    pythons = {}  # type: ignore[var-annotated]
    for python in described:
        if not is_ours(python["prefix"] or python["path"]):
            pythons.setdefault((python["prefix"] or python["path"], python["version"]), python)
    return {"asked": asked, "pythons": list(pythons.values())}


def interpreter(path):
    """The Python at *path*, which is it or its environment; "" if there is none."""
    path = os.path.normpath(os.path.join(HOME, os.path.expanduser(path)))
    path = _python_in(path) if os.path.isdir(path) else path
    return path if os.access(path, os.X_OK) and not os.path.isdir(path) else ""


def describe(path):
    """What a Python is and has; a "problem" if it does not start."""
    description = {"path": path, "prefix": "", "kind": "", "version": "", "ipykernel": "",
                   "jax": "", "installable": False, "problem": ""}  # fmt: skip
    try:
        command = [path, "-B", "-c", text_of(describing)]
        status, lines = run(command, env=clean_environment(), timeout=20)
    except OSError as error:
        return dict(description, problem=str(error.strerror))
    for line in lines:
        if line.startswith("described "):
            return dict(description, **json.loads(line[len("described ") :]))
    return dict(description, problem=(lines or ["it ended with status %d" % status])[-1])


def describe_python(path):
    """The description of the Python at *path*, which can be used."""
    python = interpreter(path)
    if not python:
        raise HostError("NOT_FOUND", "There is no Python at %s." % path, "Check the path.")
    description = describe(python)
    if is_ours(description["prefix"]):
        raise HostError(
            "INVALID", "%s is an environment of jupyter-tpu already." % path, "Connect with it."
        )
    return description


def install_ipykernel(uv, python):
    """Installs ipykernel into a Python of the user's; no package that is there is changed."""
    with exclusive_lock("found"):
        _, lines = run([python, "-I", "-B", "-c", _INSTALLED], env=clean_environment())
        there = [line.split()[1:] for line in lines if re.match(r"installed \S+ \d\S*$", line)]
        with tempfile.NamedTemporaryFile("w", dir=private_dir("environments")) as constraints:
            constraints.writelines("%s==%s\n" % tuple(pin) for pin in there)
            constraints.flush()
            uv_pip(uv, os.path.dirname(os.path.dirname(python)), "install",
                   "--constraint", constraints.name, input="ipykernel\n")  # fmt: skip
    return {}


def _python_in(folder):
    for name in ("python", "python3"):
        path = os.path.join(folder, "bin", name)
        if os.access(path, os.X_OK):
            return path
    return ""

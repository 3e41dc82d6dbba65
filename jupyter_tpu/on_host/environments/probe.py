"""What a host is and has: Python, uv, chips, disk space, environments."""

import contextlib
import glob
import json
import os
import platform
import subprocess
from concurrent.futures import ThreadPoolExecutor

from ..agent.protocol.chips import chips
from ..calls.paths import HOME, MARKER, ROOT, environment_dir
from .host_setup import setup_states
from .packages import summary
from .uv import find_uv

#: Where virtual environments are, those of conda too, by what only they have.
_VENVS = ("~/*/pyvenv.cfg", "~/.venv*/pyvenv.cfg", "~/.virtualenvs/*/pyvenv.cfg",
          "~/*/.venv*/pyvenv.cfg", "~/*/venv/pyvenv.cfg", "~/*/env/pyvenv.cfg")  # fmt: skip
_CONDAS = ("~/mini*", "~/anaconda3", "~/mambaforge", "/opt/conda")


def python_version(path):
    """ "3.12.4" of an interpreter that environments can be created with, or "".

    That is none in a virtual environment, no pre-release, and none without the global lock: not
    all packages have wheels for these.
    """
    code = (
        "import sys;print(sys.prefix==sys.base_prefix and sys.version_info[3]=='final'"
        " and 't' not in sys.abiflags,*sys.version_info[:3],sep=chr(32))"
    )
    try:
        out = subprocess.run(
            [path, "-I", "-S", "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=20,
        ).stdout.split()
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return b".".join(out[1:]).decode() if len(out) == 4 and out[0] == b"True" else ""


def installed_pythons():
    """The paths of interpreters that are not in a virtual environment, one of each."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    folders += ["/usr/bin", "/usr/local/bin", "/opt/conda/bin"]
    paths = []
    for folder in dict.fromkeys(folders):
        paths += glob.glob(os.path.join(glob.escape(folder), "python3"))
        paths += glob.glob(os.path.join(glob.escape(folder), "python3.[0-9]*"))
    for pattern in (
        "~/.local/share/uv/python/cpython-*/bin/python3",
        "~/.pyenv/versions/3*/bin/python3",
        "~/mini*3/bin/python3",
        "~/anaconda3/bin/python3",
    ):
        paths += glob.glob(os.path.expanduser(pattern))
    real = {}  # type: ignore[var-annotated]
    for path in paths:
        if os.access(path, os.X_OK) and not path.endswith("-config"):
            real.setdefault(os.path.realpath(path), path)
    return list(real.values())


def pythons():
    """{version: path} of the installed interpreters, one path per version.

    It is the real one: from where a link is, as /usr/local/bin, Python would look for its modules,
    and find those of the system's Python of the same version.
    """
    paths = [os.path.realpath(path) for path in installed_pythons()]
    with ThreadPoolExecutor(8) as pool:
        versions = list(pool.map(python_version, paths))
    chosen = {}  # type: ignore[var-annotated]
    for version, path in zip(versions, paths):
        if version:
            chosen.setdefault(version, path)
    return chosen


def environment_folders():
    """The folders of virtual environments and of conda's environments that are not ours."""
    interpreters = [os.path.dirname(path) for path in _matching(_VENVS)]
    condas = _matching(_CONDAS)
    condas += [path for conda in condas for path in glob.glob(glob.escape(conda) + "/envs/*")]
    try:
        with open(os.path.join(HOME, ".conda", "environments.txt")) as file:
            condas += file.read().splitlines()
    except (OSError, UnicodeDecodeError):
        pass
    interpreters += [
        folder for folder in condas if os.path.isdir(os.path.join(folder, "conda-meta"))
    ]
    return [python for python in dict.fromkeys(interpreters) if not is_ours(python)]


def _matching(patterns):
    return [path for pattern in patterns for path in sorted(glob.glob(os.path.expanduser(pattern)))]


def is_ours(path):
    """Whether jupyter-tpu created it."""
    return os.path.realpath(path).startswith(os.path.realpath(ROOT) + os.sep)


def free_space():
    """Bytes for this user on the disk with the home."""
    stat = os.statvfs(HOME)
    return stat.f_bavail * stat.f_frsize


def environment_python(path):
    """ "3.12.4" of a working environment, else ""."""
    python = os.path.join(path, "bin", "python")
    if not os.access(python, os.X_OK):
        return ""
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        return (
            subprocess.run(
                [python, "-I", "-S", "-c", "import sys;print('%d.%d.%d' % sys.version_info[:3])"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=20,
            )
            .stdout.decode()
            .strip()
        )
    return ""


def marker(path):
    try:
        with open(os.path.join(path, MARKER)) as file:
            return json.load(file)
    except (OSError, ValueError):
        return {}


def probe(name, setup=None):
    """What creating the environment *name* begins with; *setup*: see `host_setup.setup_states`."""
    path = environment_dir(name)
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "home": HOME,
        "free": free_space(),
        "chips": len(chips()),
        "uv": find_uv(),
        "path": path,
        "environment": environment_python(path),
        "marker": marker(path),
        "requested": summary(path),
        "setup": setup_states(setup or {}, path),
        "pythons": pythons(),
        "folders": environment_folders(),
    }

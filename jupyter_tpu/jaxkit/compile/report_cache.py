"""Reports of programs that were compiled before, on this machine's disk.

JAX's own cache stores what is compiled for a topology and can never load it. Here a report is kept
by all that it depends on: the program, the topology, the versions of jax, libtpu and this library,
and libtpu's flags. The folder is bounded. Two processes may use it at a time, and where it can't be
written, nothing is kept.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from ...local_files import write_atomically
from .report import CompileReport

#: Reports that are kept; each has a few kB.
MOST_REPORTS = 500
#: In the path of a notebook's cell: another one in each process.
_PROCESS = re.compile(rb"ipykernel_\d+")


def report_key(described: Any, program: bytes) -> str:
    """The name of the report on *program*, a serialized export; *described*: all else about it."""
    digest = sha256(msgspec.json.encode(described))
    digest.update(_made_by())
    digest.update(os.environ.get("LIBTPU_INIT_ARGS", "").encode())
    digest.update(_PROCESS.sub(b"ipykernel", program))
    return digest.hexdigest()[:40]


def kept_report(key: str) -> CompileReport | None:
    """The report called *key*; None if there is none that can be read."""
    try:
        path = _folder() / f"{key}.json"
        report = msgspec.json.decode(path.read_bytes(), type=CompileReport)
        os.utime(path)  # used
    except (OSError, ValueError, RuntimeError):  # RuntimeError: there is no home folder
        return None
    report.cached = True
    for buffer in report.buffers:
        buffer.source = re.sub(r"ipykernel_\d+", f"ipykernel_{os.getpid()}", buffer.source)
    return report


def keep_report(key: str, report: CompileReport) -> None:
    """Keeps it, and drops those that were not used for longest, if there are too many."""
    with suppress(OSError, RuntimeError):
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(folder / f"{key}.json", msgspec.json.encode(report))
        reports = sorted(folder.glob("*.json"), key=_used)
        for old in reports[:-MOST_REPORTS]:
            old.unlink(missing_ok=True)


def _folder() -> Path:
    if chosen := os.environ.get("JUPYTER_TPU_DATA_DIR"):
        return Path(chosen) / "compiled"
    cached = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(cached).expanduser() / "jupyter-tpu" / "compiled"


def _used(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # another process has dropped it
        return 0.0


@cache
def _made_by() -> bytes:
    """The versions, and a hash of the code that makes a report."""
    versions = []
    for name in ("jax", "jaxlib", "libtpu"):
        with suppress(PackageNotFoundError):
            versions.append(f"{name} {version(name)}")
    code = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    return f"{versions} {sha256(code).hexdigest()}".encode()

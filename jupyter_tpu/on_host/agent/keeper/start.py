"""The keeper's main: starts the kernel first, and loads the rest while the kernel loads, if the
process that it is a copy of has not.
"""

from __future__ import annotations

import gc
import glob
import json
import os
import signal
import subprocess
import sys
from typing import Any, Dict

from ..protocol.light_asyncio import light_asyncio
from ..protocol.paths import chip_book
from ..protocol.process_env import process_environment
from .booking import Booking, ChipsBooked
from .kernel_process import KernelProcess
from .start_report import report_start

#: The packages of an environment without which no kernel starts.
NEEDED = "zmq", "ipykernel"


def load() -> None:
    """Loads what a keeper needs, so that copies of this process share it."""
    light_asyncio()
    from . import keeper  # noqa: F401

    gc.collect()
    gc.freeze()


def run_keeper() -> int:
    """Reads its spec from stdin; prints one line of JSON when it listens, or why it can't.

    For a *warm* kernel it prints two lines before that one: the process ids, and that the kernel
    is warm. The spec of the kernel that it becomes then follows on stdin; the end of stdin means
    that it is not needed.
    """
    spec = json.loads(sys.stdin.readline())
    environment = process_environment(spec["python"])
    os.environ.clear()
    os.environ.update(environment)
    warm = "warm" in spec
    try:
        if not warm:
            _open_log(spec["folder"])
        booking = _book(spec)
        process = KernelProcess(spec)
    except ChipsBooked:
        return _report_booked()
    except OSError as error:
        report_start({"problem": "the kernel cannot be started: %s" % error})
        return 1
    asyncio = light_asyncio()
    from .keeper import Keeper

    if missing := _missing_package(spec["python"], spec["env"]):
        report_start({"problem": "the environment lacks a package that kernels need: %s" % missing})
        process.signal(signal.SIGKILL)
        return 1

    if warm:
        print(json.dumps({"keeper": os.getpid(), "pid": process.pid}), flush=True)
        print(json.dumps(process.wait_until_warm()), flush=True)
        line = sys.stdin.readline()
        if not line:
            process.signal(9)
            os._exit(0)
        spec = json.loads(line)
        try:
            _open_log(spec["folder"])
            booking = _book(spec)
            process.assign(spec)
        except ChipsBooked:
            process.signal(9)
            return _report_booked()
        except OSError as error:
            process.signal(9)
            report_start({"problem": "the warm kernel does not answer: %s" % error})
            return 1

    async def keep() -> None:
        keeper = Keeper(spec, process, booking)
        await keeper.run(lambda: report_start({"pid": process.pid, "keeper": os.getpid()}))

    asyncio.run(keep())
    # A client that saw the connection end expects the process to be gone as well.
    os._exit(0)


def _missing_package(python: str, variables: Dict[str, str]) -> str:
    """What Python says of a package that is not there; "" if kernels can start.

    variables: the kernel's own.

    It is only asked where the package is not in its usual place: that takes long.
    """
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(python)))
    if all(glob.glob(os.path.join(prefix, "lib*/python3*/site-packages", name)) for name in NEEDED):
        return ""
    script = "import " + ", ".join(NEEDED)
    asked = subprocess.run(
        [python, "-c", script], env={**os.environ, **variables}, stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
    )  # fmt: skip
    last = (asked.stderr.strip().splitlines() or ["exit code %d" % asked.returncode])[-1]
    return last if asked.returncode else ""


def _open_log(folder: str) -> None:
    log = os.open(os.path.join(folder, "keeper.log"), os.O_CREAT | os.O_WRONLY, 0o600)
    os.dup2(log, 2)
    os.close(log)


def _book(spec: Dict[str, Any]) -> Booking:
    """Raises ChipsBooked, and OSError if the book can't be opened. A warm kernel has no chips."""
    return Booking(chip_book(os.path.dirname(spec.get("folder", ""))), spec.get("chips"))


def _report_booked() -> int:
    report_start({"booked": True, "problem": "another kernel has its chips"})
    return 1

"""Which process of xdist runs which tests: a file each, and files that share what is slow to make.

Used with ``--dist loadscope``. Files of one group share fixtures of the session. Where there are
many processes, they are forked from one that has imported what the tests import.
"""

from __future__ import annotations

import os
import shlex
import sys

import forked
import pytest
from xdist.scheduler import LoadScopeScheduling

GROUPS = {
    # One JupyterLab that may be killed.
    "tests/browser/test_browser_restart.py": "kept_lab",
    "tests/browser/test_browser_tabs.py": "kept_lab",
    # Google's client of Compute Engine, which takes seconds to be imported.
    "tests/integration/test_compute_engine_fields.py": "google_compute",
    "tests/integration/test_emulator_compute.py": "google_compute",
    # One TPU with ipykernel: the fixture `kernels_tpu`.
    "tests/integration/test_kernels_load.py": "kernels_tpu",
    "tests/integration/test_kernels_ssh.py": "kernels_tpu",
    "tests/integration/test_kernels_storm.py": "kernels_tpu",
}
#: How the names of all others begin that use one JupyterLab with a connected TPU.
LAB = "tests/browser/test_browser_"


#: Processes from which on it pays to import once for all.
MANY = 4


def pytest_configure(config: pytest.Config) -> None:
    processes = getattr(config.option, "tx", None) or []
    if len(processes) < MANY or set(processes) != {"popen"}:
        return
    server = forked.ForkServer(workers=True)
    config.add_cleanup(server.stop)
    os.environ[forked.ADDRESS] = server.address
    python = shlex.join([sys.executable, "-I", "-S", forked.__file__])
    config.option.tx = [f"popen//python={python}"] * len(processes)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> LoadScopeScheduling | None:
    return FilesAndGroups(config, log) if config.getvalue("dist") == "loadscope" else None


class FilesAndGroups(LoadScopeScheduling):
    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return GROUPS.get(file, "lab" if file.startswith(LAB) else file)

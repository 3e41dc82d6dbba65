"""What the tests cost: seconds of processor time, with all processes that they start.

``pytest --cpu-time FILE`` (``make test-cpu``) puts each of pytest's processes into a control group
of its own (Linux, as root), which counts whatever is started in it, daemons and the processes of
emulated hosts too. At the end it prints the sums of folders, and the most expensive files and
tests; FILE gets all, as JSON: seconds by test. Collecting is counted by itself.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
from forked import GROUP

#: Where control groups are, and the file and unit of what one has used.
VERSION_1 = Path("/sys/fs/cgroup/cpuacct"), "cpuacct.usage", 1e-9
VERSION_2 = Path("/sys/fs/cgroup"), "cpu.stat", 1e-6
#: How many of the most expensive files and tests are printed.
MOST = 40
KEY = "cpu"


class Group:
    """A control group, with this process in it and what it starts from now on."""

    def __init__(self) -> None:
        root, name, self._unit = VERSION_1 if VERSION_1[0].is_dir() else VERSION_2
        self._folder = root / f"tests-{os.getpid()}"
        self._folder.mkdir()
        self._usage = self._folder / name
        self._parent = root / "cgroup.procs"
        processes = self._folder / "cgroup.procs"
        processes.write_text(str(os.getpid()))
        os.environ[GROUP] = str(processes)  # also for what others fork for this process

    def seconds(self) -> float:
        """What all of it have used until now."""
        words = self._usage.read_text().split()
        number = words[1] if words[0] == "usage_usec" else words[0]
        return int(number) * self._unit

    def leave(self) -> None:
        """Puts what still runs back to where it was."""
        for pid in (self._folder / "cgroup.procs").read_text().split():
            with contextlib.suppress(OSError):  # it has ended
                self._parent.write_text(pid)
        with contextlib.suppress(OSError):  # one was started meanwhile
            self._folder.rmdir()


def pytest_addoption(parser: pytest.Parser) -> None:
    help = "measure the processor time of each test with all that it starts; FILE gets it as JSON"
    parser.addoption("--cpu-time", metavar="FILE", help=help)


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--cpu-time"):
        return
    workers = getattr(config.option, "numprocesses", None) or getattr(config.option, "tx", None)
    if hasattr(config, "workerinput") or not workers:
        config.pluginmanager.register(Meter(config), "cpu-time-meter")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Table(config), "cpu-time-table")


class Meter:
    """In the process that runs tests: each report says what was used since the one before."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._group = Group()
        self._before = self._group.seconds()

    def _used(self) -> float:
        before, self._before = self._before, self._group.seconds()
        return round(self._before - before, 3)

    def pytest_collection_finish(self) -> None:
        collecting = self._used()
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput[KEY] = collecting
        else:
            self._config.pluginmanager.get_plugin("cpu-time-table").collecting.append(collecting)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        report = yield
        report.user_properties.append((KEY, self._used()))
        return report

    def pytest_unconfigure(self) -> None:
        self._group.leave()


class Table:
    """In the process that reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._file = Path(config.getoption("--cpu-time"))
        self._seconds: collections.Counter[str] = collections.Counter()
        self.collecting: list[float] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid] += dict(report.user_properties).get(KEY, 0.0)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        output = getattr(node, "workeroutput", {})
        self.collecting.append(output.get(KEY, 0.0))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        line = terminalreporter.line
        total = sum(self._seconds.values())
        terminalreporter.section("processor time, in seconds")
        line(f"{total:8.1f} tests; collecting: {', '.join(map(str, self.collecting))}")
        for title, depth, most in (("folder", 2, None), ("file", 3, MOST), ("test", 4, MOST)):
            terminalreporter.section(title, sep="-")
            for name, seconds in sums(self._seconds, depth).most_common(most):
                line(f"{seconds:8.1f} {name}")
        self._file.write_text(json.dumps(self._seconds, indent=1, sort_keys=True))


def sums(seconds: Mapping[str, float], depth: int) -> collections.Counter[str]:
    """By folder (2), file (3) or test (4)."""
    totals: collections.Counter[str] = collections.Counter()
    for test, used in seconds.items():
        totals["/".join(_parts(test)[:depth]).replace("/::", "::")] += used
    return totals


def _parts(test: str) -> Iterable[str]:
    path, mark, name = test.partition("::")
    return [*path.split("/"), *([f"{mark}{name}"] if mark else [])]

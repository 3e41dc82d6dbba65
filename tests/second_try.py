"""A second try for tests that fail, which is never silent (``pytest --second-try``).

A few tests that failed, such as those of one file, are run once more when all others are done, in a
process of their own. What passes then depends on the moment and has to be repaired: the end of the
run names it. More than `MOST` are not tried again. Each is named, and appended to ``failures.log``,
at once.
"""

from __future__ import annotations

import datetime
import subprocess
import sys
from pathlib import Path

import pytest

MOST = 5
LOG = "failures.log"
REPEATED = "repeated"  # the category in pytest's closing line


def pytest_addoption(parser: pytest.Parser) -> None:
    help = f"run up to {MOST} failed tests once more, alone, and name those that pass then"
    parser.addoption("--second-try", action="store_true", help=help)


def pytest_configure(config: pytest.Config) -> None:
    # The workers of xdist report to a process that decides.
    if config.getoption("--second-try") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(SecondTry(config), "second-try-run")


class SecondTry:
    """Decides at the end of a run what is tried again."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._log = config.rootpath / LOG

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            terminal = self._config.pluginmanager.get_plugin("terminalreporter")
            terminal.ensure_newline()
            terminal.line(f"FAILED {report.nodeid} ({report.when}), see {self._log}", red=True)
            _append(self._log, report)

    @pytest.hookimpl(trylast=True)  # after the workers and the fixtures of this process have ended
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus != pytest.ExitCode.TESTS_FAILED:
            return
        stats = self._stats()
        failures = [*stats.get("failed", ()), *stats.get("error", ())]
        tests = list(dict.fromkeys(report.nodeid for report in failures))
        if not tests or len(tests) > MOST:
            return
        if not self._pass_now(tests):
            return
        stats.pop("failed", None)
        stats.pop("error", None)
        stats[REPEATED] = failures
        session.exitstatus = pytest.ExitCode.OK

    @pytest.hookimpl(wrapper=True, tryfirst=True)  # below everything but the closing line
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter):
        yield
        repeated = {report.nodeid for report in self._stats().get(REPEATED, ())}
        if repeated:
            terminalreporter.section("PASSED ONLY WHEN REPEATED", yellow=True)
            for test in sorted(repeated):
                terminalreporter.line(test)
            terminalreporter.line(f"The first failures are at the end of {self._log}")

    def _stats(self) -> dict[str, list]:
        return self._config.pluginmanager.get_plugin("terminalreporter").stats

    def _pass_now(self, tests: list[str]) -> bool:
        options = self._config.option
        command = [sys.executable, "-m", "pytest", "--quiet", "-m", options.markexpr]
        if getattr(options, "timeout", None):
            command += ["--timeout", str(options.timeout)]
        with self._log.open("ab") as log:
            done = subprocess.run(
                [*command, *tests],
                cwd=self._config.rootpath,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return done.returncode == 0


def _append(log: Path, report: pytest.TestReport) -> None:
    now = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    with log.open("a", encoding="utf-8") as file:
        file.write(f"\n{'=' * 100}\n{now} {report.nodeid} ({report.when})\n{'=' * 100}\n")
        file.write(f"{report.longreprtext}\n")
        for title, text in report.sections:
            file.write(f"---- {title}\n{text}\n")

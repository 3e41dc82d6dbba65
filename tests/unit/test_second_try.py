"""What a run says and returns when tests pass only the second time."""

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import second_try

#: What fails once, with its name, passes from then on.
COMMON = """
import pathlib, pytest

def fail_once(name):
    mark = pathlib.Path(name)
    seen, _ = mark.exists(), mark.touch()
    assert seen, "first run of " + name

@pytest.fixture
def shaky():
    fail_once("shaky")

def test_good():
    pass
"""
FLAKY = """
def test_flaky_{number}():
    fail_once("flaky_{number}")
"""
SHAKY = """
def test_shaky(shaky):
    pass
"""
BROKEN = """
def test_broken():
    assert False
"""
IN_PARALLEL = ["-p", "xdist.plugin", "--numprocesses", "2"]


def run(folder: Path, *tests: str, options: Sequence[str] = ()) -> tuple[int, list[str]]:
    """Exit code and last lines of a run of *tests* and a good one."""
    (folder / "pytest.ini").touch()
    (folder / "test_it.py").write_text("".join([COMMON, *tests]))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "second_try", "--second-try", "-ra", *options],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(Path(second_try.__file__).parent),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # loading them takes longer than the tests
        },
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout.splitlines()[-8:]


@pytest.mark.parametrize("options", [[], IN_PARALLEL], ids=["alone", "in parallel"])
def test_what_passes_only_when_repeated_is_named_at_the_end(tmp_path, options):
    code, last = run(tmp_path, FLAKY.format(number=1), SHAKY, options=options)
    assert code == 0
    assert {"1 passed", "2 repeated"} <= set(re.findall(r"\d+ \w+", last[-1]))
    [title] = [line for line in last if "PASSED ONLY WHEN REPEATED" in line]
    named = last[last.index(title) + 1 :]
    assert named[:2] == ["test_it.py::test_flaky_1", "test_it.py::test_shaky"]
    log = (tmp_path / "failures.log").read_text()
    assert "AssertionError: first run of flaky_1" in log
    assert "AssertionError: first run of shaky" in log
    assert "2 passed" in log


@pytest.mark.parametrize("options", [[], IN_PARALLEL], ids=["alone", "in parallel"])
def test_what_fails_twice_fails_the_run(tmp_path, options):
    code, last = run(tmp_path, FLAKY.format(number=1), BROKEN, options=options)
    assert code == 1
    assert "2 failed, 1 passed" in last[-1]
    assert not any("REPEATED" in line for line in last)


def test_many_failures_are_not_tried_again(tmp_path):
    too_many = second_try.MOST + 1
    code, last = run(tmp_path, *(FLAKY.format(number=number) for number in range(too_many)))
    assert code == 1
    assert f"{too_many} failed, 1 passed" in last[-1]
    assert "passed in" not in (tmp_path / "failures.log").read_text()  # by another run


def test_a_run_without_failures_repeats_nothing(tmp_path):
    code, last = run(tmp_path)
    assert code == 0
    assert "1 passed" in last[-1]
    assert not (tmp_path / "failures.log").exists()

"""What becomes of a process's own kernels when it, or a fork of it, exits."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import asyncio, os, sys
from jupyter_tpu.kernels import exit_cleanup
from jupyter_tpu.links import core_thread

class Kernel:
    kernel_id, stopping = "k", False

    async def cleanup(self):
        if "fails" in sys.argv:
            raise OSError("no line")
        print("ended by", os.getpid() == first, flush=True)

first = os.getpid()
core_thread().loop
exit_cleanup.register(Kernel())
if "forks" in sys.argv:
    child = os.fork()
    if child == 0:
        core_thread().wait(asyncio.sleep(0), 60)
        sys.exit(7)
    print("fork", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROGRAM, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def test_they_end_with_the_process():
    done = run()
    assert (done.stdout, done.stderr) == ("ended by True\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
def test_a_fork_has_a_core_thread_and_neither_ends_them_nor_waits():
    assert run("forks").stdout == "fork 7\nended by True\n"


def test_what_could_not_be_ended_is_told_with_what_to_do():
    output = run("fails").stderr
    assert "Kernel k may still run on its host: no line." in output
    assert "jupyter tpu kernel stop TPU k" in output

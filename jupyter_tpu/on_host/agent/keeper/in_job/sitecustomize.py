"""Lets a Python process of a job say where it is, without anything in its program.

Python imports this when it starts, since its folder is the first one in PYTHONPATH of jobs. Answers
are written by faulthandler, in C: also while the program holds the GIL, or hangs in a library. They
go to a file in memory without a name, which the daemon finds among the process's open ones
(`daemon.job_stacks`). The file's former name has the identity of the main thread.

What can't be done is left out: nothing here may change, or stop, what the user runs. It is the only
file of the agent that any version of Python imports.
"""

import os
import sys

#: "SIGNAL:PATH", as `daemon.job_stacks` sets it; "" for none of this.
VARIABLE = "JUPYTER_TPU_STACKS"
#: The lowest number of its descriptor, so that programs get the numbers that they expect.
LOWEST = 200


def _answer():
    import _thread
    import faulthandler
    import fcntl

    number, _, prefix = os.environ[VARIABLE].partition(":")
    path = "%s%d-%x" % (prefix, os.getpid(), _thread.get_ident())
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
    file = os.open(path, flags, 0o600)
    os.unlink(path)
    try:
        high = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, LOWEST)
    finally:
        os.close(file)
    faulthandler.register(int(number), file=high, all_threads=True, chain=False)
    show = sys.excepthook

    def show_and_mark(kind, error, traceback):
        # With jax.distributed the process may now wait for others. A second descriptor says that.
        show(kind, error, traceback)
        fcntl.fcntl(high, fcntl.F_DUPFD_CLOEXEC, LOWEST)

    sys.excepthook = show_and_mark


def _run_the_next():
    """This one hides a sitecustomize of the environment, or of the user."""
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if path != here]
    spec = PathFinder.find_spec(__name__, sys.path)
    if spec is not None and spec.loader is not None:
        module = sys.modules[__name__] = module_from_spec(spec)
        spec.loader.exec_module(module)


# It is not wanted, or there is an old Python, or no space. Then there are py-spy and /proc.
try:  # noqa: SIM105 -- contextlib is not loaded yet
    _answer()
except Exception:
    pass
_run_the_next()

"""Commands that start this Python again, here, in whatever folder the user is.

By `-m` and `-c` alone, Python looks in that folder first: a project's `select.py`, `queue.py` or
`random.py` would be imported in place of the standard library's. All such commands are made here.
"""

from __future__ import annotations

import sys

#: Python's options before the name of a module. Unlike `-I` they keep the user's own packages
#: (`pip install --user`) and PYTHONPATH. `-P` is of Python 3.11.
RUN_MODULE = ("-P", "-m")

#: Begins a program for `-c`, where that may be of a Python older than 3.11.
SAFE_PATH = "import sys; sys.path[:] = filter(None, sys.path)\n"


def module_command(module: str, *arguments: str) -> list[str]:
    """The command that runs *module* by this Python, with nothing imported from the folder."""
    return [sys.executable, *RUN_MODULE, module, *arguments]

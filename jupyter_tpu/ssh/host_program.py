"""How a host's own Python is found that runs our programs; `on_host.packing` has what it reads."""

from __future__ import annotations

from ..errors import Reason, TPUError
from ..on_host.packing import BOOT

NO_PYTHON = 86  # an exit status of ours: the shell found no Python 3.8 or newer

#: Finds a Python and becomes it, with the program $1 and further arguments.
SHELL = f"""
for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 \
/usr/bin/python3 /usr/local/bin/python3 /opt/conda/bin/python3 python; do
  path=$(command -v "$name") || continue
  "$path" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 8))' </dev/null >/dev/null 2>&1 ||
    continue
  exec "$path" -I -c "$@"
done
exit {NO_PYTHON}
"""
#: Runs the program that it reads first; what follows is the program's own input.
COMMAND = ("sh", "-c", SHELL, "sh", BOOT)


def no_python() -> TPUError:
    """The error for a host whose shell ended with `NO_PYTHON`."""
    return TPUError(
        "The host has no Python 3.8 or newer.",
        Reason.NO_PYTHON,
        "Install it, for example with `sudo apt-get install python3`.",
    )

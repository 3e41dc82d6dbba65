"""Programs of ours that a host's own Python runs. They are sent on standard input: nothing is left
on the host, and nothing of them is seen in the list of processes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from importlib.resources.abc import Traversable

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
BOOT = """
import json, sys, types
package = sys.modules["on_host"] = types.ModuleType("on_host")
package.__path__ = []
package.sources = dict(json.loads(sys.stdin.buffer.readline()))
for name, source in package.sources.items():
    full = name if "." in name else "on_host." + name
    module = sys.modules[full] = types.ModuleType(full)
    module.__package__ = full.rpartition(".")[0]
    exec(compile(source, name + ".py", "exec"), module.__dict__)
module.main()
"""
#: Runs the program that it reads first; what follows is the program's own input.
COMMAND = ("sh", "-c", SHELL, "sh", BOOT)


def program(modules: Iterable[tuple[str, Traversable]]) -> bytes:
    """What COMMAND reads to run modules, in the order in which they import each other, and then the
    ``main`` of the last one. A name without a dot is in the package ``on_host`` there.
    """
    return json.dumps([(name, path.read_text("utf-8")) for name, path in modules]).encode() + b"\n"

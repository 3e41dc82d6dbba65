"""Runs a program from the texts of its modules, under their own names: nothing is left on the host.

It imports nothing that Python has not imported already, but for what reads the program.
"""

import sys

#: What this process was sent to run it: another process or host gets the same.
program = b""


class Sources:
    """Finds the modules of *texts*, for ``sys.meta_path``."""

    def __init__(self, texts):
        self._texts = texts

    def find_spec(self, name, path=None, target=None):
        package = any(each.startswith(name + ".") for each in self._texts)
        if package or name in self._texts:
            kind = type(sys.__spec__)  # without an import
            return kind(name, self, is_package=package)  # type: ignore[arg-type]  # it loads, too
        return None

    def get_source(self, name):
        return self._texts.get(name, "")

    def create_module(self, spec):
        pass

    def exec_module(self, module):
        name = module.__name__
        exec(compile(self.get_source(name), name, "exec"), module.__dict__)


def run(texts):
    """Runs *texts*, by their full names; the first one has the ``main``."""
    sys.meta_path.insert(0, Sources(texts))
    main = next(iter(texts))
    __import__(main)
    sys.modules[main].main()


def run_input():
    """Runs the program that is the first part of the standard input; the rest is its own input."""
    global program
    import json
    import zlib

    size = sys.stdin.buffer.readline()
    program = size + sys.stdin.buffer.read(int(size))
    run(json.loads(zlib.decompress(program[len(size) :])))

"""`on_host.variables` in a kernel on a TPU: how it comes there, and how it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_PACKAGE = "_jupyter_tpu_transfer"
_MODULES = ("frames", "codec", "kernel")  # each imports only those before it
_FOLDER = Path(__file__).parents[1] / "on_host" / "variables"
_INSTALL = """
def _install(package, sources):
    import sys, types
    for name, source in sources.items():
        module = sys.modules[package + name] = types.ModuleType(package + name)
        module.__package__, module.__path__ = package, []
        exec(compile(source, package + name, "exec"), module.__dict__)
    module.install()
_install({package!r}, {sources!r})
del _install
"""


def installation() -> str:
    """Code that makes `on_host.variables` a module of the kernel, whatever its environment has."""
    files = {f".{name}": _FOLDER / f"{name}.py" for name in _MODULES}
    sources = {"": "", **{name: path.read_text() for name, path in files.items()}}
    return _INSTALL.format(package=_PACKAGE, sources=sources)


def host_call(function: str, *arguments: Any) -> str:
    """An expression that calls a function of `on_host.variables` in the kernel."""
    called = ", ".join(map(repr, arguments))
    return f"__import__('sys').modules['{_PACKAGE}.kernel'].{function}({called})"

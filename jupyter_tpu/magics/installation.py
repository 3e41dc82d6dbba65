"""`on_host.variables` in a kernel on a TPU: how it comes there, and how it is called."""

from __future__ import annotations

from typing import Any

from ..on_host.packing import PACKAGE, cell

_PROGRAM = "variables.kernel"


def installation() -> str:
    """Code that makes `on_host.variables` a part of the kernel, whatever its environment has."""
    return cell(_PROGRAM)


def host_call(function: str, *arguments: Any) -> str:
    """An expression that calls a function of `on_host.variables.kernel` in the kernel."""
    called = ", ".join(map(repr, arguments))
    return f"__import__('sys').modules['{PACKAGE}.{_PROGRAM}'].{function}({called})"

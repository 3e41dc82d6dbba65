"""The processes that this one has started, by what they run."""

from __future__ import annotations

import psutil


def children(module: str) -> list[psutil.Process]:
    """Those that are alive and run *module* (``python -m module``), however deep below this one."""
    children = []
    for child in psutil.Process().children(recursive=True):
        try:
            if module in child.cmdline():
                children.append(child)
        except psutil.NoSuchProcess:  # it has ended, or is about to be collected
            continue
    return children

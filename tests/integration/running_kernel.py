"""A TPU's kernel that runs one cell after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from adoption_server import LIMIT
from jupyter_client import KernelManager


@contextmanager
def running_kernel(
    environment: Mapping[str, str], kernelspec: str
) -> Iterator[Callable[[str], str]]:
    """``run(code)``: what a cell prints, with tracebacks. *environment*: of the kernel's server."""
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in environment.items():
            patch.setenv(variable, value)
        manager = KernelManager(kernel_name=kernelspec)
        manager.start_kernel()
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=60)
    printed: list[str] = []

    def hook(message: Any) -> None:
        content = message["content"]
        printed.append(content.get("text", "") + "\n".join(content.get("traceback", [])))

    def run(code: str) -> str:
        printed.clear()
        client.execute_interactive(code, timeout=LIMIT, output_hook=hook)
        return "".join(printed)

    try:
        yield run
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)

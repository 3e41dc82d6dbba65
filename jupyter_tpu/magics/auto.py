"""Which cells run on the TPU: with ``%tpu auto`` all, without ``%%tpu`` in their first line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .kernels import NotebookKernels

LOCAL = "%%local"


class AutoRun:
    """Transforms the cells of one IPython shell.

    Only what the user runs: no code within a running cell, and none that a page or an extension
    runs silently.
    """

    #: IPython leaves it out when it only asks whether a cell is complete.
    has_side_effects = True

    def __init__(self, shell: Any, kernels: NotebookKernels) -> None:
        self._shell = shell
        self._kernels = kernels
        self._running = 0  # cells, one within the other

    def register(self) -> None:
        self._shell.input_transformers_cleanup.insert(0, self)
        self._shell.events.register("pre_run_cell", self._begin)
        self._shell.events.register("post_run_cell", self._end)

    def unregister(self) -> None:
        self._shell.input_transformers_cleanup.remove(self)
        self._shell.events.unregister("pre_run_cell", self._begin)
        self._shell.events.unregister("post_run_cell", self._end)

    def __call__(self, lines: list[str]) -> list[str]:
        first = next((line.strip() for line in lines if line.strip()), "")
        if first == LOCAL:
            return lines[[line.strip() for line in lines].index(LOCAL) + 1 :]
        if first.startswith("%%tpu") and len(lines) == 1:
            return [*lines, "\n"]  # IPython refuses a cell magic without a body, as for --help
        key = self._kernels.auto
        if key is None or not first or first.startswith(("%tpu", "%%tpu")) or not self._typed():
            return lines
        options = " --all-hosts" if key.all_hosts else ""
        return [f"%%tpu {key.ref.replace('~', '/')} --env {key.environment}{options}\n", *lines]

    def _typed(self) -> bool:
        if self._running:
            return False
        get_parent = getattr(self._shell, "get_parent", None)  # none in a terminal
        return get_parent is None or not get_parent().get("content", {}).get("silent", False)

    def _begin(self, _info: Any) -> None:
        self._running += 1

    def _end(self, _result: Any) -> None:
        self._running = max(0, self._running - 1)  # the cell that loaded the extension began before

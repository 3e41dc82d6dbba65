"""``%tpu push`` and ``%tpu pull``: variables between the notebook and its kernel on a TPU."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import InvalidInput
from . import stream
from .failures import MagicError, plain_errors
from .remote import wait_for_turn
from .show import ProgressDisplay

if TYPE_CHECKING:
    from .remote import RemoteKernel

#: Bytes from which on progress is shown, and seconds between two updates.
LARGE_BYTES = 8 << 20
UPDATE_SECONDS = 0.1


def push_variables(kernel: RemoteKernel, namespace: dict[str, Any], names: Sequence[str]) -> None:
    """Copies variables of *namespace* to the kernel; prints what it copied."""
    for name in names:
        if name not in namespace:
            raise InvalidInput(f"The variable {name} does not exist in this notebook.")
    wait_for_turn(kernel)
    progress = _TransferProgress(f"Pushing {', '.join(names)}")
    with _interruptible(f"The variables may not have been set on {kernel.tpu}."):
        size = stream.push(kernel, {name: namespace[name] for name in names}, progress)
    where = f"all hosts of {kernel.tpu}" if kernel.all_hosts else kernel.tpu
    progress.finish(f"Pushed {', '.join(names)} to {where}", size)


def pull_variables(
    kernel: RemoteKernel,
    namespace: dict[str, Any],
    names: Sequence[str],
    *,
    unpickle: bool,
    host: str | None = None,
) -> None:
    """Copies variables of the kernel into *namespace*; prints what it copied.

    host: one of a kernel on all hosts; "all": a list of the values of all.
    """
    wait_for_turn(kernel)
    title, source = ", ".join(names), kernel.tpu
    progress = _TransferProgress(f"Pulling {title}")
    with _interruptible("No variable was changed."):
        if host == "all":
            source = f"all hosts of {source}"
            parts = [
                stream.pull(kernel, list(names), progress, unpickle=unpickle, host=str(number))
                for number in range(kernel.hosts)
            ]
            values = {name: [part[0][name] for part in parts] for name in names}
            size = sum(part[1] for part in parts)
        else:
            source = source if host is None else f"host {host} of {source}"
            values, size = stream.pull(kernel, list(names), progress, unpickle=unpickle, host=host)
    namespace.update(values)
    progress.finish(f"Pulled {title} from {source}", size)


def pull_value(kernel: RemoteKernel, name: str, *, unpickle: bool) -> Any:
    """The value of a variable of the kernel, with progress if it is large."""
    with plain_errors():
        wait_for_turn(kernel)
        progress = _TransferProgress("Pulling the value")
        values, _ = stream.pull(kernel, [name], progress, unpickle=unpickle)
    return values[name]


@contextlib.contextmanager
def _interruptible(consequence: str) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise MagicError(f"Interrupted. {consequence}") from None


class _TransferProgress:
    """A bar for a large transfer, and its size and speed in the end."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._display = ProgressDisplay()
        self._began = time.monotonic()
        self._updated = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if total < LARGE_BYTES or (done < total and now - self._updated < UPDATE_SECONDS):
            return
        self._updated = now
        line = f"{self._title}: {_size(done)} of {_size(total)}"
        self._display.show(line, done / total, running=done < total)

    def finish(self, title: str, size: int) -> None:
        seconds = time.monotonic() - self._began
        speed = (
            f" in {seconds:.1f} s ({size / seconds / 1e6:.0f} MB/s)" if size >= LARGE_BYTES else ""
        )
        print(f"{title}: {_size(size)}{speed}.")


def _size(size: float) -> str:
    """In decimal units, as speeds are given."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"

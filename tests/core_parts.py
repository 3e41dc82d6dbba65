"""The parts of a `Core` that a test of one service needs; nobody sees the changes of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


async def nothing(*_: object, **__: object) -> None:
    pass


def ignore(*_: object, **__: object) -> None:
    pass


def core_of(**parts: Any) -> Any:
    """A core with these *parts*; what others have written is never read."""
    changes = SimpleNamespace(
        mark_changed=ignore,
        mark_tpu_changed=ignore,
        mark_tpus_changed=ignore,
        marker=lambda what: ignore,
        register=ignore,
    )
    shared = SimpleNamespace(reload=nothing)
    ending = SimpleNamespace(push_async_callback=ignore)
    return SimpleNamespace(**{"changes": changes, "shared": shared, "ending": ending, **parts})


def with_parts(core: Any, **parts: Any) -> Any:
    """The same core with other *parts*."""
    return SimpleNamespace(**{**vars(core), **parts})

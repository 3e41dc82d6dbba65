"""Callbacks that are called with each new value."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

T = TypeVar("T")


class Subscribers(Generic[T]):
    """Iterates over the callbacks: over those that were there when it began."""

    def __init__(self) -> None:
        self._callbacks: dict[int, Callable[[T], None]] = {}
        self._numbers = itertools.count()

    def __iter__(self) -> Iterator[Callable[[T], None]]:
        return iter(tuple(self._callbacks.values()))

    def __bool__(self) -> bool:
        return bool(self._callbacks)

    def add(self, callback: Callable[[T], None]) -> Callable[[], None]:
        """Returns a function that removes it again; to call that twice does no harm."""
        number = next(self._numbers)
        self._callbacks[number] = callback

        def remove() -> None:
            self._callbacks.pop(number, None)

        return remove

    def clear(self) -> None:
        self._callbacks.clear()

"""What a process makes once, and its forks make anew: their parent's threads do not run in them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Hashable
from typing import TypeVar

T = TypeVar("T")


def per_process(make: Callable[..., T]) -> Callable[..., T]:
    """*make*, which is called once in each process and for the same arguments.

    What the parent has made stays in a fork's memory. If it were freed there, it would change what
    the two share: closing an event loop removes files from the parent's selector, too.
    """

    @functools.cache
    def made(process: int, *arguments: Hashable) -> T:
        return make(*arguments)

    @functools.wraps(make)
    def of_this_process(*arguments: Hashable) -> T:
        return made(os.getpid(), *arguments)

    return of_this_process

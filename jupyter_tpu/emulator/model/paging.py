"""Lists in pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from . import api_errors

T = TypeVar("T")


def paginate(items: Sequence[T], size: int, token: str) -> tuple[Sequence[T], str]:
    """One page of *items* (all for size 0) and the token of the next, "" for the last."""
    try:
        start = int(token or 0)
    except ValueError:
        raise api_errors.invalid_field("the page token is not valid") from None
    end = start + size if size > 0 else len(items)
    return items[start:end], str(end) if end < len(items) else ""

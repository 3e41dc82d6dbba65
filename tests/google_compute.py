"""Google's client of Compute Engine, imported when it is used.

That takes seconds, and each of pytest's processes imports all tests.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("_"):  # pytest asks what it finds in a file whether it is a fixture
        raise AttributeError(name)
    from google.cloud import compute_v1

    return getattr(compute_v1, name)

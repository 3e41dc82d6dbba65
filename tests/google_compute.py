"""Google's client of Compute Engine, imported when it is used.

That takes seconds, and each of pytest's processes imports all tests.
"""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    from google.cloud import compute_v1

    return getattr(compute_v1, name)

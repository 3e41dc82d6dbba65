"""asyncio without `ssl`: our processes on a host need no TLS, and it costs 1.3 MB and some time."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Dict, Optional


def light_asyncio() -> ModuleType:
    """Imports asyncio, which takes `ssl` for missing then. Others can import `ssl` after that."""
    modules: Dict[str, Optional[ModuleType]] = sys.modules  # type: ignore[assignment]
    if "asyncio" not in modules and "ssl" not in modules:
        modules["ssl"] = None
        try:
            import asyncio
        finally:
            del modules["ssl"]
    import asyncio

    return asyncio

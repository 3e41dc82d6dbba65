"""asyncssh, imported in less time.

When it is imported it looks for two libraries that few systems have: liboqs, for a key exchange
that is not our first choice, and nettle, for UMAC, which AES-GCM does not need. The function of
ctypes that it uses runs ldconfig, gcc and ld, ten programs in all
(findings/asyncssh-import-starts-a-compiler.sh). Here it does not find these two.
"""

from __future__ import annotations

import ctypes.util

_find_library = ctypes.util.find_library
_OPTIONAL = "oqs", "liboqs", "nettle", "libnettle", "libnettle-6"


def _find(name: str) -> str | None:
    """Other threads may look for other libraries meanwhile."""
    return None if name in _OPTIONAL else _find_library(name)


ctypes.util.find_library = _find
try:
    import asyncssh as asyncssh
finally:
    ctypes.util.find_library = _find_library

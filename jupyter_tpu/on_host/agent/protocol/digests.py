"""SHA-256 of short texts, by Python's own code: `hashlib` also loads OpenSSL (0.6 MB)."""

from __future__ import annotations

import importlib


def sha256(data: bytes) -> str:
    """The digest, in hexadecimal digits."""
    for name in ("_sha2", "_sha256", "hashlib"):  # since Python 3.12, before, and without both
        try:
            return str(importlib.import_module(name).sha256(data).hexdigest())
        except ImportError:
            continue
    raise AssertionError

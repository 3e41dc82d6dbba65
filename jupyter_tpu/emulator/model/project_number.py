"""A project's number, which Google shows in addition to its id."""

from __future__ import annotations

import hashlib


def project_number(project: str) -> int:
    return int(hashlib.sha256(project.encode()).hexdigest()[:10], 16)

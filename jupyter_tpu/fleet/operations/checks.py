"""What is wrong with a request beyond its form, said before anything is done."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...environment import pythons
from ...errors import Reason, TPUError
from ..models import ConnectTPU, CreateTPU


def modules(names: Iterable[str]) -> None:
    """Raises INVALID for what can't be the name of a Python module."""
    for name in names:
        if not all(part.isidentifier() for part in name.split(".")):
            raise TPUError(
                f"{name!r} is no name of a module.",
                Reason.INVALID,
                "Give what follows `import`, such as numpy.",
            )


def labels(wanted: CreateTPU) -> None:
    """Raises INVALID for labels that Google would refuse."""
    for key, value in wanted.labels.items():
        if not re.fullmatch(r"[a-z][-_a-z0-9]{0,62}", key) or not re.fullmatch(
            r"[-_a-z0-9]{0,63}", value
        ):
            raise TPUError(
                f"The label {key}={value} is not allowed: keys and values have at most 63 "
                "lower-case letters, digits, hyphens and underscores, and keys start with a "
                "letter.",
                Reason.INVALID,
            )


def environment(wanted: ConnectTPU) -> None:
    """Raises INVALID for a Python or a package that no host could give."""
    pythons.check(wanted.python)
    requirements(wanted.packages)


def requirements(packages: Iterable[str]) -> None:
    """Raises INVALID for a package that would be read as an option or a second line."""
    for package in packages:
        if not package.strip() or package.lstrip().startswith("-") or "\n" in package:
            raise TPUError(
                f"{package!r} is not a package.",
                Reason.INVALID,
                "Write one requirement each, such as flax or optax>=0.2; options belong in a "
                "requirements file.",
            )

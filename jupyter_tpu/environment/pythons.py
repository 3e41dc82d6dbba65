"""Which Python an environment gets: the same on all hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ..errors import InvalidInput, Reason, TPUError

#: What JAX supports (its "Requires-Python", and the wheels of jaxlib); newer ones only on request.
OLDEST = (3, 11)
NEWEST = (3, 14)
#: What uv downloads where no host has a version that JAX supports.
DOWNLOADED = "3.12"


class PythonChoice(Struct, frozen=True):
    """*version* is "3.12" or "3.12.4"."""

    version: str

    def path_in(self, installed: Mapping[str, str]) -> str:
        """An interpreter of that version on a host; the version for uv to download if none."""
        for version in ordered(installed):
            if _matches(version, self.version):
                return installed[version]
        return self.version


def check(version: str | None) -> None:
    """Raises INVALID for what is neither a version of Python nor a range, or too old for JAX."""
    if version is None:
        return
    if _is_range(version):
        if not _in_range(version):
            raise InvalidInput(
                f"JAX needs Python {OLDEST[0]}.{OLDEST[1]} or newer, and {version} allows none of "
                "these.",
            )
        return
    if not re.fullmatch(r"[23]\.\d{1,2}(\.\d{1,2})?", version, re.ASCII):
        raise InvalidInput(f"{version!r} is not a Python version.", "Write it like 3.12.")
    if _minor(version) < OLDEST:
        raise InvalidInput(
            f"JAX needs Python {OLDEST[0]}.{OLDEST[1]} or newer, not {version}.",
        )


def choose(
    requested: str | None,
    installed: Sequence[Mapping[str, str]],
    existing: Sequence[str],
    environment: str,
) -> PythonChoice:
    """The Python for all hosts.

    Parameters
    ----------
    requested: a version, or a range such as ">=3.11,<3.13"; None: any. Of several, the newest that
        all hosts have and JAX supports.
    installed: {version: path} of each host.
    existing: the version of each host's environment of that name; "" where there is none.
    environment: its name, for messages.

    Raises INVALID if *requested* is not a version or too old, CONFLICT where the environment exists
    with another one.
    """
    check(requested)
    current = next((version for version in existing if version), "")
    if current:
        if requested is not None and not fits(current, requested):
            raise TPUError(
                f"The environment {environment} has Python {current}, not {requested}.",
                Reason.CONFLICT,
                "Use another environment name for another Python.",
            )
        return PythonChoice(".".join(current.split(".")[:2]))
    if requested is not None and not _is_range(requested):
        return PythonChoice(requested)
    minors = [
        {_minor(version) for version in of_host if requested is None or fits(version, requested)}
        for of_host in installed
    ]
    common = set.intersection(*minors) if minors else set()
    usable = [minor for minor in common if OLDEST <= minor <= NEWEST]
    if usable:
        return PythonChoice("{}.{}".format(*max(usable)))
    downloaded = [DOWNLOADED] if requested is None else _in_range(requested)
    return PythonChoice(DOWNLOADED if DOWNLOADED in downloaded else downloaded[-1])


def missing(version: str, installed: Sequence[Mapping[str, str]]) -> TPUError:
    """The error for a chosen Python that is not there and can't be downloaded."""
    everywhere = sorted(
        {installed_version for of_host in installed for installed_version in of_host}, key=_key
    )
    usable = [
        installed_version for installed_version in everywhere if _minor(installed_version) >= OLDEST
    ]
    return TPUError(
        f"Python {version} is not on the host, and uv could not download it. The host has "
        f"{', '.join(everywhere) or 'no other'}.",
        Reason.ENVIRONMENT,
        f"Choose {' or '.join(usable)}."
        if usable
        else "Let the host reach the internet, or install a newer Python there.",
    )


def ordered(versions: Iterable[str]) -> list[str]:
    """The newest first."""
    return sorted(versions, key=_key, reverse=True)


def fits(version: str, requested: str) -> bool:
    """Whether "3.12.4" is what was asked for: a version or a range. Of "3.12", any of them."""
    if not _is_range(requested):
        return _matches(version, requested)
    from packaging.specifiers import SpecifierSet

    patches = range(100) if version.count(".") == 1 else [""]
    return any(f"{version}.{patch}".rstrip(".") in SpecifierSet(requested) for patch in patches)


def bounds(requires: str) -> str | None:
    """A project's "requires-python", or None if it excludes nothing that JAX supports."""
    everything = [f"{OLDEST[0]}.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]
    excludes = not _is_range(requires) or _in_range(requires) != everything
    return requires if requires and excludes else None


def usual(requested: str | None) -> tuple[str, list[Any]]:
    """How a host chooses by itself: a version that it must be, or ""; then the oldest and the
    newest minor version, and what is downloaded if none of them is there.
    """
    if requested is None:
        return "", [OLDEST, NEWEST, DOWNLOADED]
    if not _is_range(requested):
        return requested, [OLDEST, NEWEST, DOWNLOADED]
    allowed = _in_range(requested)
    download = DOWNLOADED if DOWNLOADED in allowed else allowed[-1]
    return "", [_minor(allowed[0]), _minor(allowed[-1]), download]


def _is_range(requested: str) -> bool:
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return bool(SpecifierSet(requested)) and requested.isprintable()
    except InvalidSpecifier:
        return False


def _in_range(requested: str) -> list[str]:
    """The versions that uv can download and JAX supports: "3.12", or "3.12.4" if only that one."""
    from packaging.specifiers import SpecifierSet

    allowed = []
    for minor in range(OLDEST[1], NEWEST[1] + 1):
        patches = [
            patch
            for patch in range(100)
            if f"{OLDEST[0]}.{minor}.{patch}" in SpecifierSet(requested)
        ]
        if patches:  # without an upper bound, the newest patch will do
            open_ended = patches[-1] == 99
            allowed.append(f"{OLDEST[0]}.{minor}" + ("" if open_ended else f".{patches[-1]}"))
    return allowed


def _matches(version: str, requested: str) -> bool:
    return version == requested or version.startswith(requested + ".")


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def is_older(version: str, oldest: tuple[int, int]) -> bool:
    """Whether "3.7.4" is older than (3, 8)."""
    return _minor(version) < oldest


def _key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))

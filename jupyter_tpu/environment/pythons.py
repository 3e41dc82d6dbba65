"""Which Python an environment gets: the same on all hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ..errors import InvalidInput, Reason, TPUError

#: What JAX supports (its "Requires-Python", and the wheels of jaxlib); newer ones only on request.
OLDEST = (3, 11)
NEWEST = (3, 14)
#: What uv downloads where no host has a version that JAX supports.
DOWNLOADED = "3.12"


class Choice(Struct, frozen=True):
    """*version* is "3.12" or "3.12.4"."""

    version: str

    def path_in(self, installed: Mapping[str, str]) -> str:
        """An interpreter of that version on a host; the version for uv to download if none."""
        for version in ordered(installed):
            if _matches(version, self.version):
                return installed[version]
        return self.version


def check(version: str | None) -> None:
    """Raises INVALID for what is not a version of Python, or too old for JAX."""
    if version is None:
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
) -> Choice:
    """The Python for all hosts.

    Parameters
    ----------
    requested: a version; None: the newest that all hosts have and JAX supports.
    installed: {version: path} of each host.
    existing: the version of each host's environment of that name; "" where there is none.
    environment: its name, for messages.

    Raises INVALID if *requested* is not a version or too old, CONFLICT where the environment exists
    with another one.
    """
    check(requested)
    current = next((version for version in existing if version), "")
    if current:
        if requested is not None and not _matches(current, requested):
            raise TPUError(
                f"The environment {environment} has Python {current}, not {requested}.",
                Reason.CONFLICT,
                "Use another environment name for another Python.",
            )
        return Choice(".".join(current.split(".")[:2]))
    if requested is not None:
        return Choice(requested)
    minors = [{_minor(version) for version in of_host} for of_host in installed]
    common = set.intersection(*minors) if minors else set()
    usable = [minor for minor in common if OLDEST <= minor <= NEWEST]
    return Choice("{}.{}".format(*max(usable)) if usable else DOWNLOADED)


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

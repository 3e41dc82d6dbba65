"""Which Python an environment gets: the same on all hosts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from ..errors import Reason, TPUError

#: What JAX supports (its "Requires-Python", and the wheels of jaxlib); newer ones only on request.
OLDEST = (3, 11)
NEWEST = (3, 14)
#: What uv fetches where no host has one that will do.
FETCHED = "3.12"


class Choice(Struct, frozen=True):
    """*said* is "3.12" or "3.12.4"."""

    said: str

    def path_in(self, found: Mapping[str, str]) -> str:
        """An interpreter of that version on a host; what uv is to fetch if there is none."""
        for version in ordered(found):
            if _matches(version, self.said):
                return found[version]
        return self.said


def check(wanted: str | None) -> None:
    """Raises INVALID for what is no version of Python, or one that is too old for JAX."""
    if wanted is None:
        return
    if not re.fullmatch(r"[23]\.\d{1,2}(\.\d{1,2})?", wanted, re.ASCII):
        raise TPUError(
            f"{wanted!r} is not a Python version.", Reason.INVALID, "Write it like 3.12."
        )
    if _minor(wanted) < OLDEST:
        raise TPUError(
            f"JAX needs Python {OLDEST[0]}.{OLDEST[1]} or newer, not {wanted}.",
            Reason.INVALID,
        )


def choose(
    wanted: str | None,
    found: Sequence[Mapping[str, str]],
    made: Sequence[str],
    environment: str,
) -> Choice:
    """The Python for all hosts.

    found: {version: path} of each host; made: the version of the environment that is there
    already, "" where none is. Raises INVALID for a *wanted* that is no version or too old,
    CONFLICT where the environment is there with another one.
    """
    check(wanted)
    there = next((version for version in made if version), "")
    if there:
        if wanted is not None and not _matches(there, wanted):
            raise TPUError(
                f"The environment {environment} has Python {there}, not {wanted}.",
                Reason.CONFLICT,
                "Give another environment name for another Python.",
            )
        return Choice(".".join(there.split(".")[:2]))
    if wanted is not None:
        return Choice(wanted)
    minors = [{_minor(version) for version in of_host} for of_host in found]
    common = set.intersection(*minors) if minors else set()
    usable = [minor for minor in common if OLDEST <= minor <= NEWEST]
    return Choice("{}.{}".format(*max(usable)) if usable else FETCHED)


def missing(said: str, found: Sequence[Mapping[str, str]]) -> TPUError:
    """Why the Python that was chosen can't be had."""
    everywhere = sorted({version for of_host in found for version in of_host}, key=_key)
    usable = [version for version in everywhere if _minor(version) >= OLDEST]
    return TPUError(
        f"Python {said} is not on the host, and uv could not fetch it; there is "
        f"{', '.join(everywhere) or 'no other'}.",
        Reason.ENVIRONMENT,
        f"Choose {' or '.join(usable)}."
        if usable
        else "Let the host reach the internet, or install a newer Python there.",
    )


def ordered(versions: Iterable[str]) -> list[str]:
    """The newest first."""
    return sorted(versions, key=_key, reverse=True)


def _matches(version: str, said: str) -> bool:
    return version == said or version.startswith(said + ".")


def _minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))

"""What was asked for and can't be imported: which package, why, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from ..errors import Reason, TPUError
from ..on_host.environments.packages import name_of
from ..ssh.host_values import Line, Token

#: A distribution and its version.
Distribution = tuple[Token, Token]


class FailedImport(Struct, frozen=True, kw_only=True):
    """A module of a package that was asked for; see ``on_host.in_environment.import_modules``."""

    package: Token
    version: Token
    module: Token
    error: Line
    #: Whose code failed, and what it missed something in, where these are two.
    by: Distribution | None = None
    of: Distribution | None = None
    missing: Token = ""  # a module that is not installed


def asked_for(packages: Sequence[str], requirements: str | None) -> list[str]:
    """The requirements whose packages are imported."""
    lines = [line.strip() for line in (requirements or "").splitlines()]
    return [line for line in [*packages, *lines] if name_of(line)]


def failure(
    failed: Sequence[FailedImport], host: int, asked: Sequence[str] = ()
) -> TPUError | None:
    """The first of *failed*, in a sentence; None if there is none.

    asked: requirements; where one of them has the version of what fails, it is named.
    """
    return _failure(failed[0], host, asked) if failed else None


def _failure(failed: FailedImport, host: int, asked: Sequence[str]) -> TPUError:
    error = failed.error.rstrip(".")
    if failed.by and failed.of:
        (name, version), (other, its_version) = failed.by, failed.of
        pin = next((line for line in asked if name_of(line) == name_of(name)), name)
        return TPUError(
            f"{name} {version} does not work with {other} {its_version}: "
            f"`import {failed.module}` fails on host {host} with {error}.",
            Reason.ENVIRONMENT,
            f"Ask for {name}>{version} instead of {pin}, or for an older {other}."
            if pin != name
            else f"Ask for {name}>{version}, or for an older {other}.",
        )
    message = (
        f"{failed.package} {failed.version} can't be used: `import {failed.module}` fails on host "
        f"{host} with {error}."
    )
    if failed.missing:
        hint = (
            f"Add the package that has the module {failed.missing.partition('.')[0]}, and connect "
            "again."
        )
    elif ".so" in error:
        hint = "Add the package of apt that has this library (--apt), and connect again."
    else:
        hint = f"Ask for another version of {failed.package}, and connect again. The log has more."
    return TPUError(message, Reason.ENVIRONMENT, hint)

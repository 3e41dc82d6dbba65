"""What an environment should be, and what was created."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

if TYPE_CHECKING:
    from ..links import HostName
    from ..ssh import CompletedCommand


class EnvironmentSpec(Struct, frozen=True, kw_only=True):
    """What the user wants in it, beside what every environment has."""

    name: str
    python: str | None = None  # "3.12"; None: the newest that all hosts have and JAX supports
    packages: tuple[str, ...] = ()  # PEP 508
    requirements: str = ""  # the text of a requirements file


class ExpectedHardware(Struct, frozen=True, kw_only=True):
    """What JAX must see, according to the catalog."""

    emulated: bool
    devices_per_host: int | None = None  # None: not known


class Requested(Struct, frozen=True, kw_only=True):
    """The packages that were asked for, as host 0 has recorded them."""

    revision: int = 0  # grows with each change
    packages: list[str] = []


class InstalledPackage(Struct, frozen=True, kw_only=True):
    """A package in an environment."""

    name: str
    version: str
    requested: bool = False  # somebody asked for it; others came with those
    required: bool = False  # kernels on TPUs need it


class CreatedEnvironment(Struct, frozen=True, kw_only=True):
    """A verified environment; the same on all hosts."""

    path: str  # of the environment, absolute, on every host
    requested: Requested
    python: str  # "3.12.4"
    jax: str  # its version
    platform: str  # "tpu"; "cpu" if emulated
    devices: int  # on one host


class RemoteHost(Protocol):
    """A host to work on; ``links.Link`` is one."""

    host: HostName

    async def run(
        self,
        argv: Sequence[str],
        *,
        input: bytes = ...,
        env: Mapping[str, str] | None = ...,
        cwd: str | None = ...,
        timeout: float | None = ...,
        on_line: Callable[[str], None] | None = ...,
        check: bool = ...,
    ) -> CompletedCommand: ...

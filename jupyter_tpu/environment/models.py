"""What an environment should be, and what was created."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, structs

from ..errors import TPUError
from ..options import option
from ..ssh.host_values import Requirement

#: NAME==VERSION or NAME @ ADDRESS, with extras, markers and an index (see
#: `on_host.environments.indexes`).
_LOCKED = re.compile(
    r"[A-Za-z0-9][\w.-]*\s*(\[[\w\s,.-]*\])?\s*(===?\s*[\w.!+*-]+|@\s*[a-z+]+://\S+)"
    r"(\s*;[^\x00-\x1f\x7f]*)?(\s+# --index-url https?://[^\x00-\x20\x7f]+)?\s*"
)


class HostSetup(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What every host gets in addition to Python and its packages."""

    #: Names, such as ffmpeg, or NAME=VERSION.
    apt: Annotated[
        list[str], option("apt packages for the hosts.", metavar="PACKAGE...", rare=True)
    ] = []
    #: A name of the IANA database; "": as it is.
    timezone: Annotated[
        str, option("Time zone of the hosts, such as Europe/Berlin.", metavar="ZONE", rare=True)
    ] = ""
    oh_my_zsh: Annotated[
        bool, option("Make zsh with oh-my-zsh the login shell of the hosts.", rare=True)
    ] = False
    #: Its text; "": none.
    script: Annotated[
        str,
        option(
            "A script to run once on each host, as the login user, who can use sudo.",
            "--setup-script",
            typed="file",
            rare=True,
        ),
    ] = ""

    @property
    def requested(self) -> dict[str, Any]:
        """By the keys of the steps."""
        return {key: value for key, value in structs.asdict(self).items() if value}


# Python's "$" also matches in front of a last newline; "(?!\n)" makes it mean the end, as it does
# in the OpenAPI document and in JavaScript.

EnvironmentName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([-._a-z0-9]{0,38}[a-z0-9])?$(?!\n)",
        description="1–40 lower-case letters, digits, hyphens, dots and underscores",
    ),
]


#: What uses the chips: JAX, or PyTorch by TorchTPU (the package torch_tpu).
Framework = Literal["jax", "torch"]


class EnvironmentContent(Struct, kw_only=True):
    """What is in an environment in addition to what every environment has."""

    #: None: JAX, unless its lock has TorchTPU.
    framework: Annotated[
        Framework | None,
        option(
            "What uses the chips: JAX, or PyTorch (TorchTPU, with PyTorch for the CPU).",
            default="jax",
        ),
    ] = None
    #: PEP 508 requirements.
    packages: Annotated[
        list[str],
        option(
            "Packages to install in addition to JAX (or PyTorch), NumPy, matplotlib and tqdm.",
            metavar="PACKAGE...",
        ),
    ] = []
    #: Its text.
    requirements: Annotated[
        str | None, option("A requirements file of packages to install.", typed="requirements")
    ] = None
    #: What the hosts get in addition to Python.
    setup: HostSetup = HostSetup()

    @property
    def content(self) -> dict[str, Any]:
        """As fields of another one with the same content."""
        return {name: getattr(self, name) for name in EnvironmentContent.__struct_fields__}


class EnvironmentSpec(EnvironmentContent, kw_only=True):
    """An environment that the user wants."""

    environment: EnvironmentName = "default"
    python: Annotated[
        str | None,
        option(
            "Python version, such as 3.12.",
            metavar="VERSION",
            default="the newest on the host that JAX supports",
        ),
    ] = None
    #: Its text: what another environment has.
    lock: Annotated[
        str | None,
        option(
            "Exact versions to install, from `env lock`, `uv export` or `pip freeze`.",
            typed="requirements",
        ),
    ] = None
    #: Whether versions are chosen again where the hosts can't have the Python that `lock` was made
    #: for. Otherwise that is an error.
    resolve_again: bool = False


class ExpectedHardware(Struct, frozen=True, kw_only=True):
    """What JAX must see, according to the catalog."""

    emulated: bool
    devices_per_host: int | None = None  # None: not known
    coordinator: str = ""  # the address of host 0 inside the network; "": not known
    generation: str = ""  # "v5e"; "": not known


class Requested(Struct, frozen=True, kw_only=True):
    """The packages that were asked for, as host 0 has recorded them."""

    revision: int = 0  # grows with each change
    #: A requirement each, never an option: they are installed on other hosts and TPUs, too.
    packages: list[Requirement] = []


class Locked(Requested, frozen=True, kw_only=True):
    """With the exact versions on a host: names with a version or an address, and nothing else."""

    lock: Annotated[str, Meta(max_length=4 << 20)]

    def __post_init__(self) -> None:
        for line in self.lock.splitlines():
            if line.strip() and not _LOCKED.fullmatch(line):
                raise ValueError(f"{line[:100]!r} in a list of versions")

    @property
    def requested(self) -> Requested:
        return Requested(revision=self.revision, packages=self.packages)


class SyncedPackages(Struct, frozen=True, kw_only=True):
    """The packages that all hosts have."""

    requested: Requested
    lock: str  # their exact versions, as a requirements file
    warning: TPUError | None = None  # what was added and can't be imported


class InstalledPackage(Struct, frozen=True, kw_only=True):
    """A package in an environment."""

    name: str
    version: str
    requested: bool = False  # you asked for it; the others are its dependencies
    required: bool = False  # kernels on TPUs need it


class FoundPython(Struct, frozen=True, kw_only=True):
    """A Python that was on the hosts before jupyter-tpu."""

    path: str  # of its executable
    prefix: str  # of its environment; "" if it does not start
    kind: Literal["venv", "conda", "uv", "system", ""]
    version: str  # "3.12.4"
    ipykernel: str  # its version; "" if it is not installed
    jax: str
    #: Whether ipykernel can be installed there if it is missing.
    installable: bool = False
    #: The environment that uses it; "" if there is none.
    environment: str = ""
    #: A name for an environment that uses it.
    name: str = ""
    #: Hosts that lack it, and those where its versions are others than on the first that has it.
    missing: list[int] = []
    different: list[int] = []
    #: Why kernels can't use it; "" if they can.
    problem: str = ""
    #: Whether it can only be what environments are created with: a system's, without ipykernel.
    base: bool = False


class FoundPythons(Struct, frozen=True, kw_only=True):
    """The Pythons on the hosts of a TPU."""

    pythons: list[FoundPython]
    #: The one at the path that was asked for; "" if there is none.
    asked: str = ""
    #: A sentence for each host that could not be asked.
    problems: list[str] = []


class CreatedEnvironment(Struct, frozen=True, kw_only=True):
    """A verified environment; the same on all hosts."""

    path: str  # of the environment, absolute, on every host
    python_path: str = ""  # of a Python that was found there; "" if the environment is ours
    requested: Requested
    lock: str = ""  # exact versions of its packages; "" if it was there already
    python: str  # "3.12.4"
    jax: str  # its version
    torch: str = ""  # the version of PyTorch; "" without TorchTPU
    platform: str  # "tpu"; "cpu" if emulated
    devices: int  # on one host
    warning: TPUError | None = None  # of an optional step that failed

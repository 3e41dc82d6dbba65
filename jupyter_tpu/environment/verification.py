"""What the check of a new environment found: the same packages on all hosts, and the chips."""

from __future__ import annotations

import math
from datetime import UTC, datetime

from msgspec import UNSET, Struct, UnsetType

from ..wording import age_text, container_text, count, phrase
from .imports import FailedImport

#: Which chips a program uses, and the x, y, z bounds of them; in their new and old names.
_CHIP_LISTS = "TPU_VISIBLE_CHIPS", "TPU_VISIBLE_DEVICES"
_CHIP_BOUNDS = "TPU_CHIPS_PER_PROCESS_BOUNDS", "TPU_CHIPS_PER_HOST_BOUNDS"
#: What may help a TPU whose chips are not what they should be.
CREATE_AGAIN = (
    "Restart the TPU. If that does not help, delete it and create it again, with its type's "
    "default runtime version."
)
#: Where a login's variables may be set.
_LOGIN_FILES = "/etc/environment, /etc/profile.d, ~/.profile and ~/.bashrc"


class HoldingProcess(Struct, frozen=True, kw_only=True):
    """A process that has chips open, or libtpu's lock."""

    pid: int
    user: str
    command: str
    devices: list[str] = []
    start: str = ""  # in the system's ticks since its boot
    since: float | None = None  # the same in seconds since 1970, by the host's clock
    age: float | None = None  # seconds
    container: str = ""  # the beginning of its id; "?": of one that is not known
    stop: str = ""  # the command that stops the container
    notebook: str = ""  # from which a Jupyter server on the host has started it

    def __str__(self) -> str:
        what = f"process {self.pid} of {self.user}"
        if self.container:
            what += f" in {container_text(self.container)}"
        if self.notebook:
            what += f" (notebook {self.notebook})"
        if self.since is not None:
            what += f" since {datetime.fromtimestamp(self.since, UTC):%Y-%m-%d %H:%M} UTC"
        if self.age is not None:
            what += f" ({age_text(self.age)})"
        return f"{what}: {self.command}"


class LockFile(Struct, frozen=True, kw_only=True):
    """The file that libtpu locks; owner is "" if it does not exist."""

    owner: str = ""
    held: bool = False
    #: Whether the programs of the login user, and of root, can't use it even if it is not held.
    blocks_user: bool = False
    blocks_root: bool = False

    @property
    def in_the_way(self) -> bool:
        """Whether it keeps your programs from the chips though no process holds the lock."""
        return self.blocks_user and not self.held


class Hardware(Struct, frozen=True, kw_only=True):
    """What decides whether JAX can use a host's chips; see ``on_host.chips.holders.hardware``."""

    chips: list[str] = []  # the generation of each on the PCI bus
    device_files: list[str] = []
    holders: list[HoldingProcess] = []
    complete: bool = True  # False: processes of other users and containers could not be seen
    lock: LockFile = LockFile()
    variables: dict[str, str] = {}  # of a login, as far as JAX and libtpu read them
    no_library: str = ""  # TPU_LIBRARY_PATH, if nothing is there
    no_preload: str = ""  # the first of LD_PRELOAD that does not exist
    emulated: bool = False


class HostCheck(Struct, frozen=True, kw_only=True):
    """What the environment's Python found on one host; see
    ``on_host.environments.virtualenv.check_python``.
    """

    python: str = ""
    packages: dict[str, str] = {}
    jax: str = ""  # its version; "" where it is not installed
    torch: str = ""  # the version of PyTorch; "" where TorchTPU is not installed
    cuda: str = ""  # for which CUDA PyTorch is; "" for the CPU
    #: JAX's default backend, or where PyTorch has computed.
    platform: str | UnsetType = UNSET
    devices: int | UnsetType = UNSET
    error: str | None = None  # something could not be imported
    backend_error: str = ""  # JAX found no device, or could not use the TPU
    libtpu_wanted: str = ""  # the version that JAX asks for, such as "==0.0.42.*"
    libtpu_fits: bool = True
    hardware: Hardware = Hardware()
    failed_imports: list[FailedImport] = []

    @property
    def libtpu(self) -> str:
        """The version of libtpu; "" if it is not installed."""
        return self.packages.get("libtpu") or self.packages.get("libtpu-nightly") or ""


def single_host_variables(hosts: int) -> dict[str, str]:
    """The variables with which a process on one host of a TPU of *hosts* sees that host's chips.

    Without them, on a pod, JAX waits until it is started on all hosts. The hosts of a pod have
    four chips each. Source: pytorch/xla#7714.
    """
    if hosts < 2:
        return {}
    return {
        "TPU_CHIPS_PER_PROCESS_BOUNDS": "2,2,1",
        "TPU_PROCESS_BOUNDS": "1,1,1",
        "TPU_VISIBLE_CHIPS": "0,1,2,3",
        "TPU_VISIBLE_DEVICES": "0,1,2,3",
    }


def chip_limits(hardware: Hardware) -> tuple[int, dict[str, str]]:
    """To how many of the host's chips its login limits a program, and the variables that do it.

    The chips are all of them if no variable does. Sources: facts of libtpu's variables as in
    pytorch/xla's ``torch_xla/_internal/tpu.py`` and ray's ``accelerators/tpu.py``.
    """
    chips = len(hardware.chips) or len(hardware.device_files)
    fewest, names = chips, {}
    for name in _CHIP_LISTS + _CHIP_BOUNDS:
        numbers = hardware.variables.get(name, "").split(",")
        if all(number.strip().isdigit() for number in numbers):
            uses = len(numbers) if name in _CHIP_LISTS else math.prod(map(int, numbers))
            if uses < chips:
                fewest, names[name] = min(fewest, uses), hardware.variables[name]
    return fewest, names


def chips_in_use(check: HostCheck) -> bool:
    """Whether another program has the chips, so that nothing is known of JAX or PyTorch."""
    error = check.backend_error
    busy = "in use" in error or "busy" in error.lower()
    return check.platform != "tpu" and (busy or bool(check.hardware.holders))


class Fallback(Struct, frozen=True, kw_only=True):
    """Why JAX takes the CPU instead of the chips."""

    cause: str  # as the end of a sentence
    hint: str
    variable: str = ""  # of the login, that has to go
    package: bool = False  # whether the package jax[tpu] has to be installed


def fallback_cause(check: HostCheck) -> Fallback:
    """Why JAX does not use the chips of a host, and what to do."""
    hardware = check.hardware
    platforms = hardware.variables.get("JAX_PLATFORMS", "")
    if platforms and "tpu" not in platforms.split(","):
        return _because_of("JAX_PLATFORMS", phrase(f"the host sets JAX_PLATFORMS={platforms}"))
    if not hardware.chips and not hardware.device_files:
        return Fallback(cause=phrase("the host has no TPU chips"), hint=CREATE_AGAIN)
    if not hardware.device_files:
        return Fallback(
            cause=phrase(
                f"its {count(len(hardware.chips), 'chip')} have no device files, because the "
                "runtime version has no TPU driver"
            ),
            hint="Create the TPU again with its type's default runtime version.",
        )
    if hardware.no_library:
        return _because_of(
            "TPU_LIBRARY_PATH",
            phrase(
                f"the host sets TPU_LIBRARY_PATH to {hardware.no_library}, which does not exist"
            ),
        )
    if not check.libtpu:
        return _without_package(phrase("the package libtpu is not installed"), check)
    if hardware.holders:
        return Fallback(
            cause=phrase(f"its chips are in use by {hardware.holders[0]}"),
            hint="Stop that process on the host, or wait until it ends.",
        )
    if not check.libtpu_fits:
        libtpu, needed = check.libtpu, f"libtpu{check.libtpu_wanted}"
        cause = phrase(f"JAX {check.jax} needs {needed}, but {libtpu} is installed")
        return _without_package(cause, check)
    why = first_line(check.backend_error) or (
        phrase(f"it chose {check.platform}") if check.platform else phrase("it chose no device")
    )
    return Fallback(cause=why.rstrip("."), hint="The log has details.")


def _because_of(variable: str, cause: str) -> Fallback:
    hint = f"Remove {variable} from {_LOGIN_FILES} there, and connect again."
    return Fallback(cause=cause, hint=hint, variable=variable)


def _without_package(cause: str, check: HostCheck) -> Fallback:
    hint = f"Add the package jax[tpu]=={check.jax} to the environment."
    return Fallback(cause=cause, hint=hint, package=True)


def differences_between(first: HostCheck, other: HostCheck) -> str:
    """The versions that differ on two hosts, at most five; "" if there are none."""
    ours, theirs = first.packages, other.packages
    names = [name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)]
    differences = [
        f"{n} {theirs.get(n, 'missing')} instead of {ours.get(n, 'none')}" for n in names[:5]
    ]
    if first.python.rpartition(".")[0] != other.python.rpartition(".")[0]:
        differences.append(f"Python {other.python} instead of {first.python}")
    return ", ".join(sorted(differences))


def first_line(text: str) -> str:
    return text.strip().partition("\n")[0]

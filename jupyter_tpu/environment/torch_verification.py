"""What the check of an environment with PyTorch found: whether TorchTPU can use the chips.

What TorchTPU needs is read in its package (torch_tpu 0.2.0): it knows chips by their PCI numbers
(``_internal/utils/hardware.py``, v4 and newer), and counts those with a file below /dev/vfio.
jupyter-tpu was not tried with it on hardware.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET

from ..errors import InvalidInput, Reason, TPUError
from ..wording import count, phrase
from .models import ExpectedHardware
from .verification import CREATE_AGAIN, Fallback, HostCheck, chips_in_use, first_line

#: The generations that TorchTPU 0.2.0 knows.
GENERATIONS = ("v4", "v5e", "v5p", "v6e", "TPU7x")
#: What is said of a host without chips: TorchTPU computes nothing there.
WITHOUT_CHIPS = (
    "TorchTPU can't be checked without TPU chips. Checked: it is imported, and PyTorch computes on "
    "the CPU"
)


def require_generation(generation: str) -> None:
    """Raises INVALID for one that TorchTPU does not know; "" is not known to us."""
    if generation and generation not in GENERATIONS:
        raise InvalidInput(
            f"TorchTPU does not support {generation}: it supports {', '.join(GENERATIONS)}.",
            "Use JAX on this TPU: omit --framework.",
        )


def torch_versions(check: HostCheck) -> str:
    """ "PyTorch 2.13.0, TorchTPU 0.2.0, libtpu 0.0.52" """
    versions = {
        "PyTorch": check.torch,
        "TorchTPU": check.packages.get("torch_tpu", ""),
        "libtpu": check.libtpu,
    }
    return ", ".join(f"{name} {version}" for name, version in versions.items() if version)


def require_torch(
    index: int, check: HostCheck, expected: ExpectedHardware, log: Callable[[str], None]
) -> None:
    """Raises TPUError (ENVIRONMENT, CPU_FALLBACK) unless PyTorch on a host can use its chips."""
    if not check.torch:
        raise TPUError(
            f"PyTorch with TorchTPU is not installed on host {index}.",
            Reason.ENVIRONMENT,
            "One of your packages may have replaced it. Leave that out or pin it.",
        )
    if check.cuda:
        raise TPUError(
            f"PyTorch {check.torch} on host {index} is for CUDA {check.cuda}.",
            Reason.ENVIRONMENT,
            "One of your packages may have replaced it. Leave that out or pin it.",
        )
    if not expected.emulated and chips_in_use(check):
        log(f"host {index}: the chips are in use. So TorchTPU was not checked there")
        return
    if check.platform is UNSET and (expected.emulated or not check.backend_error):
        raise TPUError(
            f"PyTorch does not work on host {index}: {first_line(check.backend_error)}",
            Reason.ENVIRONMENT,
            "The log has details.",
        )
    if expected.emulated:
        log(f"host {index}: {torch_versions(check)}; {WITHOUT_CHIPS}")
        return
    if check.platform != "tpu":
        why = torch_fallback(check)
        raise TPUError(
            f"PyTorch on host {index} does not use the TPU: {why.cause}.",
            Reason.CPU_FALLBACK,
            why.hint,
        )
    log(f"host {index}: {torch_versions(check)}, {count(int(check.devices or 0), 'device')}")


def torch_fallback(check: HostCheck) -> Fallback:
    """Why PyTorch does not use the chips of a host, and what to do."""
    hardware = check.hardware
    unknown = [each for each in hardware.chips if each not in GENERATIONS]
    vfio = [path for path in hardware.device_files if path.startswith("/dev/vfio/")]
    if not hardware.chips and not hardware.device_files:
        return Fallback(cause=phrase("the host has no TPU chips"), hint=CREATE_AGAIN)
    if unknown:
        return Fallback(
            cause=phrase(f"TorchTPU does not support {unknown[0] or 'these chips'}"),
            hint="Use JAX on this TPU.",
        )
    if not vfio:
        return Fallback(
            cause=phrase("TorchTPU looks for chips in /dev/vfio, and this host has none there"),
            hint="Create the TPU again with its type's default runtime version, or use JAX.",
        )
    if not check.libtpu:
        return Fallback(
            cause=phrase("the package libtpu is not installed"),
            hint="Add the package libtpu to the environment.",
            package=True,
        )
    why = first_line(check.backend_error) or phrase("it found no device")
    return Fallback(cause=why.rstrip("."), hint="The log has details.")

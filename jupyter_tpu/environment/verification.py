"""What the check of a new environment found: the same packages on all hosts, and the chips."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import UNSET, Struct, UnsetType, convert

from ..errors import Reason, TPUError
from .models import ExpectedHardware


class HostCheck(Struct, frozen=True, kw_only=True):
    """What the environment's Python found on one host; see ``on_host.virtualenv.verify``."""

    python: str = ""
    packages: dict[str, str] = {}
    jax: str = ""
    platform: str | UnsetType = UNSET  # JAX's default backend
    devices: int | UnsetType = UNSET
    chips: int = 0  # that are plugged in
    error: str | None = None  # something could not be imported
    backend_error: str = ""  # JAX found no device, or could not use it

    @classmethod
    def parse(cls, answer: Any) -> HostCheck:
        return convert(answer, cls)


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


def require_usable(
    checks: Sequence[HostCheck], expected: ExpectedHardware, log: Callable[[str], None]
) -> None:
    """Raises TPUError (ENVIRONMENT, CPU_FALLBACK) unless all hosts can work with it."""
    for index, check in enumerate(checks):
        _require_usable_host(index, check, expected, log)
    for index, check in enumerate(checks):
        differences = _differences(checks[0], check)
        if differences:
            raise TPUError(
                f"Host {index} has other versions than host 0: {differences}.",
                Reason.ENVIRONMENT,
                "Use another environment name to create it again on all hosts.",
            )


def _require_usable_host(
    index: int, check: HostCheck, expected: ExpectedHardware, log: Callable[[str], None]
) -> None:
    if check.error is not None:
        raise TPUError(
            f"The environment does not work on host {index}: {check.error}",
            Reason.ENVIRONMENT,
            "If one of your packages replaced another's version, leave it out or pin it.",
        )
    trouble = check.backend_error
    if trouble and ("in use" in trouble or "busy" in trouble.lower()):
        # Another program has the chips: no reason to refuse, and nothing to verify now.
        log(f"host {index}: the chips are in use, so they were not checked")
        return
    if trouble or (not expected.emulated and check.platform != "tpu"):
        raise _cpu_fallback(index, check)
    want = expected.devices_per_host
    if want is not None and want != check.devices:
        raise TPUError(
            f"JAX sees {check.devices} devices on host {index}; this type has {want} there.",
            Reason.ENVIRONMENT,
            "Restart the TPU. If that does not help, delete it and create it again.",
        )
    versions = f"Python {check.python}, JAX {check.jax}"
    log(f"host {index}: {versions}, {check.devices} {check.platform} devices")


def _differences(first: HostCheck, other: HostCheck) -> str:
    ours, theirs = first.packages, other.packages
    names = [name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)]
    found = [f"{n} {theirs.get(n, 'missing')} instead of {ours.get(n, 'none')}" for n in names[:5]]
    if first.python.rpartition(".")[0] != other.python.rpartition(".")[0]:
        found.append(f"Python {other.python} instead of {first.python}")
    return ", ".join(sorted(found))


def _cpu_fallback(index: int, check: HostCheck) -> TPUError:
    if not check.chips:
        return TPUError(
            f"Host {index} has no TPU chips, so JAX falls back to the CPU.",
            Reason.CPU_FALLBACK,
            "The runtime version may not fit the type. Create the TPU with the type's default.",
        )
    why = f" ({check.backend_error.splitlines()[0]})" if check.backend_error else ""
    used = "CPU" if check.platform in (UNSET, "cpu") else check.platform
    return TPUError(
        f"JAX on host {index} uses the {used} instead of its {check.chips} TPU chips{why}.",
        Reason.CPU_FALLBACK,
        "Check the packages: one may have replaced jax[tpu] or libtpu. The log has details.",
    )

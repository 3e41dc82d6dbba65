"""Whether all hosts can work with a new environment, or with one that was found there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import UNSET

from ..errors import Reason, TPUError
from ..wording import count
from .models import ExpectedHardware, Framework
from .torch_verification import require_torch
from .verification import (
    HostCheck,
    chips_in_use,
    differences_between,
    fallback_cause,
    first_line,
)


def require_usable(
    checks: Sequence[HostCheck],
    expected: ExpectedHardware,
    log: Callable[[str], None],
    framework: Framework = "jax",
) -> None:
    """Raises TPUError (ENVIRONMENT, CPU_FALLBACK) unless all hosts can work with it."""
    for index, check in enumerate(checks):
        _require_working(index, check)
        if framework == "torch":
            require_torch(index, check, expected, log)
            continue
        if not check.jax:
            raise TPUError(
                f"JAX is not installed on host {index}.",
                Reason.ENVIRONMENT,
                "One of your packages may have replaced it. Leave that out or pin it.",
            )
        _require_devices(index, check, expected, log)
    for index, check in enumerate(checks):
        differences = differences_between(checks[0], check)
        if differences:
            raise TPUError(
                f"Host {index} has other versions than host 0: {differences}.",
                Reason.ENVIRONMENT,
                "Use another environment name to create it again on all hosts.",
            )


def require_usable_found(
    checks: Sequence[HostCheck], expected: ExpectedHardware, log: Callable[[str], None]
) -> None:
    """The same of a Python of the user's, which may lack JAX; what differs is only said."""
    for index, check in enumerate(checks):
        _require_working(index, check)
        if check.jax:
            _require_devices(index, check, expected, log)
        elif check.torch:
            require_torch(index, check, expected, log)
        else:
            log(f"host {index}: Python {check.python}, without JAX")
        if differences := differences_between(checks[0], check):
            log(f"host {index} has other versions than host 0: {differences}")


def _require_working(index: int, check: HostCheck) -> None:
    if check.error is not None:
        raise TPUError(
            f"The environment does not work on host {index}: {check.error}",
            Reason.ENVIRONMENT,
            "If one of your packages replaced another's version, leave it out or pin it.",
        )


def _require_devices(
    index: int, check: HostCheck, expected: ExpectedHardware, log: Callable[[str], None]
) -> None:
    if not expected.emulated:
        if chips_in_use(check):
            # No reason to refuse. A kernel is refused while they are.
            if check.hardware.holders:
                who = check.hardware.holders[0]
                log(f"host {index}: the chips are in use by {who}. So JAX was not checked there")
            else:
                log(f"host {index}: the chips are in use. So JAX was not checked there")
            return
        if check.platform != "tpu":
            why = fallback_cause(check)
            raise TPUError(
                f"JAX on host {index} does not use the TPU: {why.cause}.",
                Reason.CPU_FALLBACK,
                why.hint,
            )
    elif check.platform is UNSET:
        raise TPUError(
            f"JAX does not work on host {index}: {first_line(check.backend_error)}",
            Reason.ENVIRONMENT,
            "The log has details.",
        )
    want = expected.devices_per_host
    if want is not None and want != check.devices:
        raise TPUError(
            f"JAX sees {count(int(check.devices or 0), 'device')} on host {index}; this type has "
            f"{want} there.",
            Reason.ENVIRONMENT,
            "Restart the TPU. If that does not help, delete it and create it again.",
        )
    versions = f"Python {check.python}, JAX {check.jax}"
    devices = count(int(check.devices or 0), f"{check.platform} device")
    log(f"host {index}: {versions}, {devices}")

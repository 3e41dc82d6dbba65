"""Compute Engine's errors as our few reasons: of calls, of operations, and of groups' instances.

The texts are those that users have published; Google has no list of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...errors import Reason, TPUError, error_for
from ..errors import status_error, tidy

_IN_USE = "Delete that first."
_ANOTHER_NAME = "Choose another name, or delete the one that exists."
_ANOTHER_ZONE = (
    "Try another zone, type or tier, or try again later. Google does not say when there is "
    "capacity."
)

#: (pattern in the message, reason, hint), tried from top to bottom.
_RULES: tuple[tuple[str, Reason, str], ...] = (
    (r"already being used by", Reason.CONFLICT, _IN_USE),
    (r"already exists", Reason.EXISTS, _ANOTHER_NAME),
    (r"is not ready", Reason.CONFLICT, "Wait until it is in another state."),
    (
        r"user agent is not allowed to use the machine type",
        Reason.INVALID,
        "Compute Engine lists this type, and does not make it. The Cloud TPU API may: --api tpu",
    ),
    (
        r"constraints/compute\.vmExternalIpAccess",
        Reason.PERMISSION,
        "Your organization forbids external addresses. Create it with --internal-ips; downloads "
        "from the internet then need Cloud NAT in the region.",
    ),
    (
        r"No default subnetwork was found",
        Reason.INVALID,
        "Name a network and a subnetwork of this region.",
    ),
    (r"does not have enough resources", Reason.NO_CAPACITY, _ANOTHER_ZONE),
    (
        r"Machine type .* does not exist in zone|must provide existing machine type",
        Reason.INVALID,
        "Choose a type that this zone offers.",
    ),
)
#: By the code of an operation's error, for what the message does not say.
_CODES: dict[str, tuple[Reason, str]] = {
    "ZONE_RESOURCE_POOL_EXHAUSTED": (Reason.NO_CAPACITY, _ANOTHER_ZONE),
    "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS": (Reason.NO_CAPACITY, _ANOTHER_ZONE),
    # After minutes in STAGING; the same shape has failed so again and again where there was none.
    "INTERNAL_ERROR": (
        Reason.NO_CAPACITY,
        f"Google often says this if there is no capacity for such a host. {_ANOTHER_ZONE}",
    ),
    "RESOURCE_NOT_READY": (Reason.CONFLICT, "Wait until it is in another state."),
    "RESOURCE_IN_USE_BY_ANOTHER_RESOURCE": (Reason.CONFLICT, _IN_USE),
    "RESOURCE_ALREADY_EXISTS": (Reason.EXISTS, _ANOTHER_NAME),
    "RESOURCE_NOT_FOUND": (Reason.NOT_FOUND, ""),
    "PERMISSIONS_ERROR": (Reason.PERMISSION, ""),
    "FORBIDDEN": (Reason.PERMISSION, ""),
    "CONDITION_NOT_MET": (Reason.CONFLICT, ""),
}
_ROLE = (
    "Ask the project's owner for the role Compute Instance Admin "
    "(roles/compute.instanceAdmin.v1), and check the project's name."
)


def call_error(error: TPUError) -> TPUError:
    """What a call of Compute Engine failed with, from what `GoogleAPIs` made of it."""
    for pattern, reason, hint in _RULES:
        if re.search(pattern, error.message):
            cloud_error = error_for(error.message, reason, hint, scope=_scope(reason))
            cloud_error.__cause__ = error.__cause__
            return cloud_error
    if error.reason is Reason.PERMISSION and "roles/tpu.admin" in error.hint:
        error.hint = _ROLE
    return error


def operation_error(operation: Mapping[str, Any], *, project: str = "") -> TPUError | None:
    """Why an operation that is DONE has failed; None for one that has not."""
    return first_error(operation.get("error", {}).get("errors", ()), project=project)


def first_error(errors: Iterable[Mapping[str, Any]], *, project: str = "") -> TPUError | None:
    """The first of an operation's or a managed instance's errors."""
    for error in errors:
        code, message = str(error.get("code", "")), str(error.get("message", ""))
        # google.rpc.Code.RESOURCE_EXHAUSTED, so that the texts of limits are understood.
        number = 8 if code in ("QUOTA_EXCEEDED", "RATE_LIMIT_EXCEEDED") else None
        cloud_error = call_error(
            status_error({"code": number, "message": message}, project=project)
        )
        if cloud_error.reason is Reason.INTERNAL and code in _CODES:
            reason, hint = _CODES[code]
            cloud_error = error_for(cloud_error.message, reason, hint, scope=_scope(reason))
        return cloud_error
    return None


def unreadable(why: object) -> TPUError:
    return TPUError(
        f"The answer of Compute Engine could not be read: {tidy(str(why))}",
        Reason.INTERNAL,
        "Try again. The log has the details.",
    )


def _scope(reason: Reason) -> str:
    return "zone" if reason is Reason.NO_CAPACITY else ""

"""The service's errors, in Google's own words (with the `[EID: 0x…]` of most messages).

Codes are google.rpc.Code numbers; both transports translate them. The wordings were seen on the
real service, except those marked: an API form that is general to Google, or ours.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

INVALID_ARGUMENT = 3
DEADLINE_EXCEEDED = 4
NOT_FOUND = 5
ALREADY_EXISTS = 6
PERMISSION_DENIED = 7
RESOURCE_EXHAUSTED = 8
FAILED_PRECONDITION = 9
ABORTED = 10
UNIMPLEMENTED = 12
UNAUTHENTICATED = 16

#: google.rpc.Code → (its name, the HTTP status that stands for it).
CODES: dict[int, tuple[str, int]] = {
    1: ("CANCELLED", 499),
    2: ("UNKNOWN", 500),
    INVALID_ARGUMENT: ("INVALID_ARGUMENT", 400),
    DEADLINE_EXCEEDED: ("DEADLINE_EXCEEDED", 504),
    NOT_FOUND: ("NOT_FOUND", 404),
    ALREADY_EXISTS: ("ALREADY_EXISTS", 409),
    PERMISSION_DENIED: ("PERMISSION_DENIED", 403),
    RESOURCE_EXHAUSTED: ("RESOURCE_EXHAUSTED", 429),
    FAILED_PRECONDITION: ("FAILED_PRECONDITION", 400),
    ABORTED: ("ABORTED", 409),
    UNIMPLEMENTED: ("UNIMPLEMENTED", 501),
    13: ("INTERNAL", 500),
    14: ("UNAVAILABLE", 503),
    UNAUTHENTICATED: ("UNAUTHENTICATED", 401),
}


class ApiError(Exception):
    """An error answer: *code* of google.rpc.Code, the message, and ErrorInfo where there is one.

    *info* is (reason, domain, metadata) of google.rpc.ErrorInfo, *retry_after* the seconds of a
    google.rpc.RetryInfo, *violations* are (field, description) of google.rpc.BadRequest. *status*
    is an HTTP status, where Compute Engine or Cloud Storage has another than the code's; *reason*
    the word that Cloud Storage adds.
    """

    def __init__(
        self,
        code: int,
        message: str,
        info: tuple[str, str, dict[str, str]] | None = None,
        *,
        retry_after: float | None = None,
        violations: Sequence[tuple[str, str]] = (),
        status: int | None = None,
        reason: str = "",
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = CODES[code][1] if status is None else status
        self.retry_after = retry_after
        self.violations = violations
        self.code = code
        self.message = message
        self.info = info


def _bad_request(text: str) -> ApiError:
    return ApiError(INVALID_ARGUMENT, f"Cloud TPU received a bad request. {text} {_eid()}")


def _eid() -> str:
    return f"[EID: 0x{secrets.token_hex(8).lstrip('0') or '1'}]"


def unauthenticated() -> ApiError:
    return ApiError(
        UNAUTHENTICATED,
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login "
        "cookie or other valid authentication credential. "
        "See https://developers.google.com/identity/sign-in/web/devconsole-project.",
        ("ACCESS_TOKEN_TYPE_UNSUPPORTED", "googleapis.com", {"service": "tpu.googleapis.com"}),
    )


def unknown_location(zone: str) -> ApiError:
    return ApiError(PERMISSION_DENIED, f"Location {zone} is not found or access is unauthorized.")


def type_not_in_zone(name: str, zone: str) -> ApiError:
    return _bad_request(f"the accelerator {name} was not found in zone {zone}")


def invalid_node_id(name: str) -> ApiError:
    # Our wording; the rule is the API's.
    return _bad_request(
        f"the node id {name!r} is invalid: it must be 1-40 lower-case letters, digits and "
        "hyphens, start with a letter and not end with a hyphen"
    )


def invalid_queued_resource_id(name: str) -> ApiError:
    return _bad_request(  # our wording, as above
        f"the queued resource id {name!r} is invalid: it must be 1-40 lower-case letters, digits "
        "and hyphens, start with a letter and not end with a hyphen"
    )


def needs_force(path: str, state: str) -> ApiError:
    # The rule is the one of DeleteQueuedResourceRequest.force; the service's sentence is not known.
    return ApiError(
        FAILED_PRECONDITION,
        f"The queued resource '{path}' is in the state {state}. Without force, a queued resource "
        "will only be deleted if its nodes have already been deleted or the queued resource is in "
        f"the ACCEPTED, FAILED, or SUSPENDED state. {_eid()}",
    )


def valid_until_text() -> str:
    """The error of a queued resource that failed (code 4); our wording."""
    return f"The queued resource was not provisioned before its valid-until time. {_eid()}"


def invalid_field(text: str) -> ApiError:
    return _bad_request(text)


def invalid_payload(violations: Sequence[tuple[str, str]]) -> ApiError:
    """JSON that is no message of the API; *violations* are (field, what is wrong there)."""
    message = "\n".join(text for _, text in violations)
    return ApiError(INVALID_ARGUMENT, message, violations=violations)


def unknown_version(name: str, zone: str) -> ApiError:
    return _bad_request(f"the runtime version {name} was not found in zone {zone}")


def unknown_network(path: str) -> ApiError:
    return _bad_request(f"the network resource '{path}' was not found")  # our wording


def resource_not_found(path: str) -> ApiError:
    """Compute Engine's, as the next four."""
    return ApiError(NOT_FOUND, f"The resource '{path}' was not found")


def resource_exists(path: str) -> ApiError:
    return ApiError(ALREADY_EXISTS, f"The resource '{path}' already exists")


def resource_in_use(path: str, user: str) -> ApiError:
    return ApiError(INVALID_ARGUMENT, f"The resource '{path}' is already being used by '{user}'")


def invalid_value(field: str, value: object, pattern: str) -> ApiError:
    return ApiError(
        INVALID_ARGUMENT,
        f"Invalid value for field '{field}': '{value}'. Must be a match of regex '(?:{pattern})'",
    )


def required_field(field: str) -> ApiError:
    return ApiError(INVALID_ARGUMENT, f"Required field '{field}' not specified")


def compute_invalid(text: str) -> ApiError:
    return ApiError(INVALID_ARGUMENT, text)


def wrong_fingerprint(what: str) -> ApiError:
    text = f"Supplied {what} does not match current {what}."
    return ApiError(FAILED_PRECONDITION, text, status=412)


def refused_machine_type(name: str) -> ApiError:
    return ApiError(
        PERMISSION_DENIED, f"This user agent is not allowed to use the machine type [{name}]."
    )


def not_ready(path: str) -> ApiError:
    return ApiError(INVALID_ARGUMENT, f"The resource '{path}' is not ready")


def external_address_forbidden(project: str, path: str) -> ApiError:
    return ApiError(
        FAILED_PRECONDITION,
        f"Constraint constraints/compute.vmExternalIpAccess violated for project {project}. Add "
        f"instance {path} to the constraint to use external IP with it.",
        status=412,
    )


def exists(path: str) -> ApiError:
    return ApiError(ALREADY_EXISTS, f"Resource '{path}' already exists")


def not_found(path: str) -> ApiError:
    return ApiError(NOT_FOUND, f"Resource '{path}' was not found")


def wrong_state(verb: str, state: str) -> ApiError:
    return _bad_request(f"{verb} is not supported while in state {state}")


def not_restartable() -> ApiError:
    return _bad_request("start is not supported for preemptible or spot TPUs")  # our wording


def busy(path: str) -> ApiError:
    # Google answers 409; our wording.
    return ApiError(ABORTED, f"Another operation on '{path}' is in progress; try again later.")


def quota(generation: str, tier: str, zone: str, chips: int = 0) -> ApiError:
    region = zone.rpartition("-")[0]
    # Flex-start uses the quota of preemptible TPUs.
    kind = {"on-demand": "", "reserved": "Reserved"}.get(tier, "Preemptible")
    limit = f"TPU{generation.upper()}{kind}PerProjectPerRegionForTPUAPI"
    return ApiError(
        RESOURCE_EXHAUSTED,
        f"Quota limit '{limit}' has been exceeded. Limit: {chips} in region {region}.",
    )


def too_many_hosts(requested: int, free: int, why: str) -> ApiError:
    # The emulator's own; as a quota, since that is what a client can act on.
    hosts = "1 host" if requested == 1 else f"{requested} hosts"
    return ApiError(
        RESOURCE_EXHAUSTED,
        "Quota limit 'EmulatedHosts' has been exceeded. "
        f"This type has {hosts} and this machine can run {free} more{why}.",
    )


def permission(permission_name: str, resource: str) -> ApiError:
    return ApiError(
        PERMISSION_DENIED,
        f"Permission '{permission_name}' denied on '{resource}' (or it may not exist).",
        (
            "IAM_PERMISSION_DENIED",
            "iam.googleapis.com",
            {"permission": permission_name, "resource": resource},
        ),
    )


def insufficient_scopes() -> ApiError:
    return ApiError(
        PERMISSION_DENIED,
        "Request had insufficient authentication scopes.",
        ("ACCESS_TOKEN_SCOPE_INSUFFICIENT", "googleapis.com", {}),
    )


def api_disabled(project_number: int) -> ApiError:
    consumer = f"projects/{project_number}"
    return ApiError(
        PERMISSION_DENIED,
        f"Cloud TPU API has not been used in project {project_number} before or it is disabled. "
        "Enable it by visiting https://console.developers.google.com/apis/api/tpu.googleapis.com/"
        f"overview?project={project_number} then retry. If you enabled this API recently, wait a "
        "few minutes for the action to propagate to our systems and retry.",
        (
            "SERVICE_DISABLED",
            "googleapis.com",
            {"service": "tpu.googleapis.com", "consumer": consumer},
        ),
    )


def no_capacity_text(zone: str, tier: str = "on-demand") -> str:
    """The error of the failed operation (code 8), not of the request."""
    if tier == "reserved":
        return (
            "Insufficient reserved capacity. Contact customer support to increase your "
            f"reservation. {_eid()}"
        )
    return (
        f'There is no more capacity in the zone "{zone}"; you can try in another zone where '
        "Cloud TPU Nodes are offered (see https://cloud.google.com/tpu/docs/regions) "
        f"{_eid()}"
    )


def compute_no_capacity_text(project: str, zone: str) -> str:
    return (
        f"The zone 'projects/{project}/zones/{zone}' does not have enough resources available to "
        "fulfill the request.  Try a different zone, or try again later."
    )


def compute_quota_text(zone: str, error: ApiError) -> str:
    limit = error.message.partition("Limit: ")[2].partition(" ")[0] or "0"
    region = zone.rpartition("-")[0]
    return f"Quota 'TPUS_PER_TPU_FAMILY' exceeded.  Limit: {float(limit)} in region {region}."

"""Google's errors as our few reasons, with a hint. Google's own sentence stays the message.

Google publishes no list of its wordings. Those below were seen in public reports and in other
tools. Codes are google.rpc.Code, which gRPC's status and a failed operation's error share.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from socket import gaierror
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from ..errors import InvalidInput, Reason, TPUError
from ..wording import first_sentence
from .auth import LOGIN
from .outbound import untrusted_certificate

if TYPE_CHECKING:
    from google.api_core.exceptions import GoogleAPICallError
    from google.rpc.status_pb2 import Status

_CAPACITY = (
    "Try another zone or type, or try again later. Google does not say when there is capacity.",
    "Use a reservation with free capacity, or ask for on-demand or spot.",
)
_RECREATE = "Delete it and create it again."
_QUOTAS = "https://console.cloud.google.com/iam-admin/quotas"
_QUOTA_HINT = (
    "Delete what you don't need (suspended queued resources count too), choose a smaller type, or "
    f"ask for more quota: {_QUOTAS}"
)
_RATE_HINT = "Too many requests in a short time."

#: (code, or None for any; pattern in the message; reason; hint), tried from top to bottom.
_RULES: tuple[tuple[int | None, str, Reason, str], ...] = (
    (None, r"Insufficient reserved capacity", Reason.NO_CAPACITY, _CAPACITY[1]),
    (
        None,
        r"no more capacity|not enough (resources|capacity)|ZONE_RESOURCE_POOL_EXHAUSTED",
        Reason.NO_CAPACITY,
        _CAPACITY[0],
    ),
    (None, r"per minute|[Rr]ate limit|requests per", Reason.RATE_LIMITED, _RATE_HINT),
    (
        None,
        r"\b[Qq]uota\b.*(exceed|exhaust|reached)|(exceeds|insufficient|not enough) .*\bquota\b",
        Reason.QUOTA,
        _QUOTA_HINT,
    ),
    (None, r"while in state (PREEMPTED|TERMINATED)", Reason.CONFLICT, _RECREATE),
    (None, r"not supported for (preemptible|spot)", Reason.INVALID, _RECREATE),
    (None, r"while in state", Reason.CONFLICT, "Wait until it is in another state."),
    (
        None,
        r"[Ll]ocation \S+ (is|was) not found|[Ii]nvalid (location|zone)",
        Reason.INVALID,
        "Check the zone's spelling, and that your project may use it.",
    ),
    (
        3,
        r"accelerator \S+ was not found|AcceleratorType|accelerator type",
        Reason.INVALID,
        "Choose a type that this zone offers.",
    ),
    (
        3,
        r"[Rr]untime ?[Vv]ersion|software version|version \S+ (was )?not found",
        Reason.INVALID,
        "Leave the version out to get the type's usual image.",
    ),
    (None, r"migrate to TPU VM", Reason.INVALID, "Create it as a TPU VM."),
)

_LIMITS = (Reason.NO_CAPACITY, Reason.QUOTA, Reason.RATE_LIMITED)

#: By the `reason` of a google.rpc.ErrorInfo.
_BY_DETAIL: dict[str, tuple[Reason, str]] = {
    "BILLING_DISABLED": (Reason.PERMISSION, "Link a billing account to the project."),
    "USER_PROJECT_DENIED": (
        Reason.PERMISSION,
        "Your calls use the quota of that project. Ask its owner for the role Service Usage "
        "Consumer (roles/serviceusage.serviceUsageConsumer), or choose another project: "
        "`gcloud auth application-default set-quota-project PROJECT`.",
    ),
    "RATE_LIMIT_EXCEEDED": (Reason.RATE_LIMITED, _RATE_HINT),
    "RESOURCE_QUOTA_EXCEEDED": (Reason.QUOTA, _QUOTA_HINT),
}

_BY_CODE: dict[int, tuple[Reason, str]] = {
    1: (Reason.CANCELLED, ""),
    2: (Reason.UNAVAILABLE, "Try again in a moment."),
    3: (Reason.INVALID, ""),
    4: (Reason.TIMEOUT, "Check the network connection, and try again."),
    5: (Reason.NOT_FOUND, "Look at the list of TPUs; it may have been deleted."),
    6: (Reason.EXISTS, "Choose another name, or delete the one that exists."),
    7: (
        Reason.PERMISSION,
        "Ask the project's owner for the role TPU Admin (roles/tpu.admin), and check the "
        "project's name.",
    ),
    8: (
        Reason.UNAVAILABLE,
        f"Google did not say which limit was reached. Try again later, and check the quotas: "
        f"{_QUOTAS}",
    ),
    9: (Reason.CONFLICT, "Check its state, and try again when that has changed."),
    10: (Reason.CONFLICT, "Another change of it is in progress. Try again when that is done."),
    13: (Reason.UNAVAILABLE, "Try again in a moment."),
    14: (Reason.UNAVAILABLE, "Check the network connection, and try again."),
    16: (Reason.NO_CREDENTIALS, LOGIN),
}

#: How far a limit reaches: "Limit 32 in zone Z", "…PerProjectPerRegionForTPUAPI", "per project".
_SCOPES = (
    ("zone", r"\bin (the )?zone\b|PerZone"),
    ("region", r"\bin (the )?region\b|PerRegion"),
    ("project", r"PerProject|\bper project\b|\bfor consumer\b"),
)


class _Details(Struct):
    """What the details of a google.rpc.Status add to its message."""

    reason: str = ""  # of ErrorInfo: "SERVICE_DISABLED"
    limit: str = ""  # of ErrorInfo or QuotaFailure, where they name the limit
    retry_after: float | None = None  # of RetryInfo, seconds


def classify(
    code: int | None, message: str, *, detail: str = "", project: str = ""
) -> tuple[Reason, str]:
    """The reason and hint for a google.rpc *code* and Google's *message*.

    *detail* is the ``reason`` of an ErrorInfo ("SERVICE_DISABLED"), where the answer has one.
    """
    if "requires a quota project" in message:
        return (
            Reason.PERMISSION,
            f"Type `gcloud auth application-default set-quota-project {project or 'PROJECT'}`.",
        )
    if _is_disabled(detail, message):
        return (
            Reason.PERMISSION,
            f"Enable the API: `gcloud services enable tpu.googleapis.com "
            f"--project {project or 'PROJECT'}`, then wait a minute.",
        )
    if detail in _BY_DETAIL:
        return _BY_DETAIL[detail]
    if code == 7 and re.search(r"[Ll]ocation \S+ is not found", message):
        return (Reason.PERMISSION, "Check the zone's spelling, or choose one you have quota in.")
    wording = _without_names(message)
    for expected_code, pattern, reason, hint in _RULES:
        if code in (5, 6) and reason in _LIMITS:
            continue  # of a thing that may be called "quota-exceeded"
        if (expected_code is None or expected_code == code) and re.search(pattern, wording):
            return (reason, hint)
    return _BY_CODE.get(code or 0, (Reason.INTERNAL, ""))


def _is_disabled(detail: str, message: str) -> bool:
    return detail == "SERVICE_DISABLED" or "it is disabled" in message


def _without_names(message: str) -> str:
    """The message without the names that people chose, which may have any word in them."""
    return re.sub(r"projects/[^\s'\",;]+|nodes/[^\s'\",;]+", "NAME", message)


def tidy(message: str) -> str:
    """Google's sentence without its error id and transport's prefix, ended by a full stop."""
    text = re.sub(r"\s*\[EID: ?0x[0-9a-fA-F]+\]\.?", "", message).strip()
    text = re.sub(r"^(Cloud ?TPU received a bad request\.)\s+(?=\S)", "", text, flags=re.IGNORECASE)
    text = re.sub(r"\s+", " ", text)
    if not text:
        return "Google Cloud refused without saying why."
    text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?)" else text + "."


def operation_error(status: Status, *, project: str = "") -> TPUError:
    """The error of a long-running operation that failed."""
    return _error(status.code, status.message, _read_details(status.details), project)


def status_error(status: Mapping[str, Any], *, project: str = "") -> TPUError:
    """As `operation_error`, of a google.rpc.Status in JSON."""
    details = _read_details(status.get("details", ()))
    return _error(status.get("code"), status.get("message", ""), details, project)


def call_error(
    error: GoogleAPICallError, *, timeout: float, project: str = "", emulated: bool = False
) -> TPUError:
    """A call's error, whichever transport it came over."""
    from google.api_core import exceptions

    message = error.message or str(error)
    if isinstance(error, exceptions.DeadlineExceeded):
        return TPUError(f"{_who(emulated)} did not answer within {timeout:.0f} s.", *_BY_CODE[4])
    if isinstance(error, exceptions.ServiceUnavailable):
        return _unavailable(message, emulated)
    if isinstance(error, exceptions.Unauthorized):
        return _unauthenticated(message, emulated)
    details = _read_details(error.details or ())
    details.reason = str(getattr(error, "reason", "") or details.reason)
    return _error(_code(error), message, details, project)


def _error(code: int | None, message: str, details: _Details, project: str) -> TPUError:
    reason, hint = classify(code, message, detail=details.reason, project=project)
    scope = ""
    if reason in _LIMITS:
        text = f"{message} {details.limit}"
        scope = next((scope for scope, pattern in _SCOPES if re.search(pattern, text)), "")
    if reason is Reason.RATE_LIMITED and not details.retry_after:
        hint += " Wait a minute."  # Google's limits are per minute
    if reason is Reason.INVALID:
        return InvalidInput(tidy(message), hint)
    if _is_disabled(details.reason, message):
        return APIDisabled(tidy(message), reason, hint)
    return TPUError(tidy(message), reason, hint, retry_after=details.retry_after, scope=scope)


class APIDisabled(TPUError):
    """The project does not use this API: nothing can be there (PERMISSION)."""


def never_sent(error: TPUError) -> bool:
    """Whether the call that raised *error* certainly never reached Google: there was no connection
    or no credentials to send it with. Everything else may have taken effect unheard.
    """
    cause = error.__cause__
    if isinstance(getattr(cause, "reason", None), (ConnectionRefusedError, gaierror)):
        return True  # over REST
    said = str(cause) if cause is not None else ""
    return "failed to connect to all addresses" in said or "metadata from plugin failed" in said


def _unavailable(message: str, emulated: bool) -> TPUError:
    if (untrusted := untrusted_certificate(message, _who(emulated))) is not None:
        return untrusted
    plugin = re.search(r"metadata from plugin failed with error: (.*)", message, re.DOTALL)
    if plugin and emulated:
        return _unauthenticated(plugin[1], emulated)
    if plugin and not re.search(
        r"Max retries|ConnectionPool|Connection ?Error|timed out", plugin[1]
    ):
        # google-auth's exceptions arrive as the repr of their arguments; the first one tells.
        text = re.sub(
            r"""^\(?['"](.*?)['"](, .*\)|,?\))?$""", r"\1", plugin[1].strip(), flags=re.DOTALL
        )
        text = first_sentence(text)
        return TPUError(
            f"The Google Cloud credentials were refused: {tidy(text)}",
            Reason.NO_CREDENTIALS,
            LOGIN,
        )
    if emulated:
        return TPUError(
            "The emulator does not answer.",
            Reason.UNAVAILABLE,
            "Start it with `jupyter tpu emulator`.",
        )
    return TPUError(
        f"Google Cloud can't be reached: {tidy(first_sentence(message))}", *_BY_CODE[14]
    )


def _unauthenticated(message: str, emulated: bool) -> TPUError:
    if emulated:
        return TPUError(
            "The emulator refused the token of its state file.",
            Reason.NO_CREDENTIALS,
            "The token may belong to an emulator that has ended. Start the emulator again.",
        )
    return TPUError(tidy(first_sentence(message)), Reason.NO_CREDENTIALS, LOGIN)


def _who(emulated: bool) -> str:
    return "The emulator" if emulated else "Google Cloud"


def _code(error: GoogleAPICallError) -> int | None:
    """The google.rpc code, of gRPC's status, of HTTP's, or of a failed operation."""
    status = getattr(error, "grpc_status_code", None)
    if status is not None:
        return int(status.value[0])
    http = {400: 3, 401: 16, 403: 7, 404: 5, 409: 10, 412: 9, 429: 8, 499: 1, 500: 13, 501: 12}
    if error.code is not None:
        return {**http, 503: 14, 504: 4}.get(int(error.code))
    for item in error.errors or ():
        if getattr(item, "code", None):
            return int(item.code)
    return None


def _read_details(details: Iterable[Any]) -> _Details:
    """Reads a status's details: messages, messages packed as Any, or JSON objects."""
    read = _Details()
    for item in map(_as_json, details):
        kind = str(item.get("@type", "")).rpartition(".")[2]
        if kind == "ErrorInfo" or "domain" in item:
            read.reason = str(item.get("reason", ""))
            read.limit = str(item.get("metadata", {}).get("quota_limit", ""))
        elif kind == "RetryInfo" or "retryDelay" in item:
            seconds = re.fullmatch(r"([\d.]+)s", str(item.get("retryDelay", "")))
            read.retry_after = float(seconds[1]) if seconds else None
        elif kind == "QuotaFailure" or "violations" in item:
            read.limit = " ".join(_descriptions(item.get("violations", ())))
    return read


def _descriptions(violations: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for violation in violations:
        yield str(violation.get("description", ""))


def _as_json(detail: Any) -> Mapping[str, Any]:
    if isinstance(detail, Mapping):
        return detail
    from google.protobuf.json_format import MessageToDict

    # The types must be known to be unpacked.
    from google.rpc import error_details_pb2  # noqa: F401

    try:
        return MessageToDict(detail)
    except (AttributeError, TypeError):  # an Any of a type that is not known here, or no message
        return {}

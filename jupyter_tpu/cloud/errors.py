"""Google's errors as our few reasons, with a hint; Google's own sentence stays the message.

There is no list of Google's wordings: these were seen in public reports and in other tools. Codes
are google.rpc.Code, which gRPC's status and a failed operation's error share.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from ..errors import Reason, TPUError
from .auth import LOGIN, first_sentence

if TYPE_CHECKING:
    from google.api_core.exceptions import GoogleAPICallError

_CAPACITY = (
    "Try another zone or type, or again later: nobody can say when there is capacity.",
    "Use a reservation with room, or ask for on-demand or spot.",
)
_RECREATE = "Delete it and create it again."

#: (code, or None for any; pattern in the message; reason; hint), tried from top to bottom.
_RULES: tuple[tuple[int | None, str, Reason, str], ...] = (
    (None, r"Insufficient reserved capacity", Reason.NO_CAPACITY, _CAPACITY[1]),
    (None, r"no more capacity|not enough (resources|capacity)", Reason.NO_CAPACITY, _CAPACITY[0]),
    (
        None,
        r"per minute|[Rr]ate limit|requests per",
        Reason.UNAVAILABLE,
        "Too many requests in a short time; wait a minute.",
    ),
    (
        None,
        r"[Qq]uota",
        Reason.QUOTA,
        "Delete what you don't need (suspended queued resources count too), choose a smaller "
        "type, or ask for more quota: https://console.cloud.google.com/iam-admin/quotas",
    ),
    (None, r"while in state (PREEMPTED|TERMINATED)", Reason.CONFLICT, _RECREATE),
    (None, r"not supported for (preemptible|spot)", Reason.CONFLICT, _RECREATE),
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
    8: (Reason.NO_CAPACITY, _CAPACITY[0]),
    9: (Reason.CONFLICT, "Look at the state it is in, and try again when that has changed."),
    10: (Reason.CONFLICT, "Another change of it is under way; try again when that is through."),
    13: (Reason.UNAVAILABLE, "Try again in a moment."),
    14: (Reason.UNAVAILABLE, "Check the network connection, and try again."),
    16: (Reason.NO_CREDENTIALS, LOGIN),
}


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
    if detail == "SERVICE_DISABLED" or "it is disabled" in message:
        return (
            Reason.PERMISSION,
            f"Switch the API on: `gcloud services enable tpu.googleapis.com "
            f"--project {project or 'PROJECT'}`, then wait a minute.",
        )
    if detail == "BILLING_DISABLED":
        return (Reason.PERMISSION, "Link a billing account to the project.")
    if code == 7 and re.search(r"[Ll]ocation \S+ is not found", message):
        return (Reason.PERMISSION, "Check the zone's spelling, or choose one you have quota in.")
    for wanted, pattern, reason, hint in _RULES:
        if (wanted is None or wanted == code) and re.search(pattern, message):
            return (reason, hint)
    return _BY_CODE.get(code or 0, (Reason.INTERNAL, ""))


def tidy(message: str) -> str:
    """Google's sentence without its error id and transport's prefix, ended by a full stop."""
    text = re.sub(r"\s*\[EID: ?0x[0-9a-fA-F]+\]\.?", "", message).strip()
    text = re.sub(r"^(Cloud ?TPU received a bad request\.)\s+(?=\S)", "", text, flags=re.IGNORECASE)
    text = re.sub(r"\s+", " ", text)
    if not text:
        return "Google Cloud refused without saying why."
    text = text[0].upper() + text[1:]
    return text if text[-1] in ".!?)" else text + "."


def operation_error(code: int, message: str, *, project: str = "") -> TPUError:
    """A failed long-running operation's error (code and message of its google.rpc.Status)."""
    reason, hint = classify(code, message, project=project)
    return TPUError(tidy(message), reason, hint)


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
    reason, hint = classify(_code(error), message, detail=_detail(error), project=project)
    return TPUError(tidy(message), reason, hint)


def _unavailable(message: str, emulated: bool) -> TPUError:
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
            "It may belong to an emulator that has ended; start it again.",
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


def _detail(error: GoogleAPICallError) -> str:
    reason = getattr(error, "reason", None)
    if reason:
        return str(reason)
    details: Iterable = error.details or ()
    for item in details:
        found = item.get("reason") if isinstance(item, dict) else getattr(item, "reason", None)
        if found:
            return str(found)
    return ""

"""Cloud Storage's errors, in Google's words where they are known; the others are marked."""

from __future__ import annotations

from ..model.api_errors import (
    ALREADY_EXISTS,
    FAILED_PRECONDITION,
    INVALID_ARGUMENT,
    NOT_FOUND,
    PERMISSION_DENIED,
    UNIMPLEMENTED,
    ApiError,
)


def no_bucket() -> ApiError:
    return ApiError(NOT_FOUND, "The specified bucket does not exist.", reason="notFound")


def no_object(bucket: str, name: str) -> ApiError:
    return ApiError(NOT_FOUND, f"No such object: {bucket}/{name}", reason="notFound")


def no_upload() -> ApiError:
    return ApiError(NOT_FOUND, "The upload does not exist, or has expired.", reason="notFound")


def bucket_exists(own: bool) -> ApiError:
    if own:
        text = "Your previous request to create the named bucket succeeded and you already own it."
    else:
        text = (
            "The requested bucket name is not available. The bucket namespace is shared by all "
            "users of the system. Please select a different name and try again."
        )
    return ApiError(ALREADY_EXISTS, text, reason="conflict")


def not_empty() -> ApiError:
    text = "The bucket you tried to delete is not empty."
    return ApiError(ALREADY_EXISTS, text, reason="conflict")


def condition_not_met() -> ApiError:
    text = "At least one of the pre-conditions you specified did not hold."
    return ApiError(FAILED_PRECONDITION, text, status=412, reason="conditionNotMet")


def not_modified() -> ApiError:
    return ApiError(FAILED_PRECONDITION, "Not Modified", status=304, reason="notModified")


def range_not_satisfiable() -> ApiError:
    text = "The requested range cannot be satisfied."
    return ApiError(INVALID_ARGUMENT, text, status=416, reason="requestedRangeNotSatisfiable")


def invalid(text: str) -> ApiError:
    return ApiError(INVALID_ARGUMENT, text, reason="invalid")


def required(what: str) -> ApiError:
    return ApiError(INVALID_ARGUMENT, f"Required parameter: {what}", reason="required")


def wrong_sum(kind: str, declared: str, actual: str) -> ApiError:
    return invalid(f'Provided {kind} "{declared}" doesn\'t match calculated {kind} "{actual}".')


def unsupported(what: str) -> ApiError:
    # The emulator's own.
    text = f"The emulator's Cloud Storage does not have {what}."
    return ApiError(UNIMPLEMENTED, text, reason="notImplemented")


def full(limit: int) -> ApiError:
    # The emulator's own; a client can't wait for it to pass.
    text = (
        f"The emulator keeps at most {limit / 2**30:.3g} GiB of objects, and its disk must have "
        "room for them. Delete some, or set JUPYTER_TPU_EMULATOR_STORAGE_GIB."
    )
    return ApiError(PERMISSION_DENIED, text, reason="quotaExceeded")


def forbidden(account: str, permission: str) -> ApiError:
    text = (
        f"{account} does not have {permission} access to the Google Cloud Storage "
        f"{'object' if '.objects.' in permission else 'bucket'}. Permission '{permission}' denied "
        "on resource (or it may not exist)."
    )
    return ApiError(PERMISSION_DENIED, text, reason="forbidden")


def wrong_scopes() -> ApiError:
    text = "Provided scope(s) are not authorized"
    return ApiError(PERMISSION_DENIED, text, reason="forbidden")

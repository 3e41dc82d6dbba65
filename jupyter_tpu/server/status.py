"""The HTTP statuses of errors."""

from __future__ import annotations

from ..errors import Reason

#: Reasons with another status than 500. 401 is not used, and neither is 403 for Google's
#: credentials: Jupyter's clients would take them for a problem with the server's own login.
STATUS = {
    Reason.INVALID: 400,
    Reason.PERMISSION: 403,
    Reason.NOT_FOUND: 404,
    Reason.NO_FOLDER: 404,
    Reason.EXISTS: 409,
    Reason.CONFLICT: 409,
    Reason.KERNELS_RUNNING: 409,
    Reason.JOBS_RUNNING: 409,
    Reason.STILL_BILLED: 409,
    Reason.PRICE: 409,
    Reason.BUDGET: 409,
    Reason.NOT_YOURS: 409,
    Reason.CHIPS_HELD: 409,
    Reason.NO_IPYKERNEL: 409,
    Reason.CANCELLED: 409,
    Reason.INTERRUPTED: 409,
    Reason.NO_CREDENTIALS: 424,
    Reason.NO_PROJECT: 424,
    Reason.KEY_FILE: 424,
    Reason.QUOTA: 429,
    Reason.RATE_LIMITED: 429,
    Reason.HOST_KEY: 502,
    Reason.LOGIN_SHELL: 502,
    Reason.UNREACHABLE: 502,
    Reason.NO_CAPACITY: 503,
    Reason.UNAVAILABLE: 503,
    Reason.TIMEOUT: 504,
    Reason.DISK_FULL: 507,
}

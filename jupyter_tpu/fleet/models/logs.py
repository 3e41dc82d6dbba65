"""Whether Cloud Logging stores what the hosts of a TPU log."""

from __future__ import annotations

from msgspec import Struct


class SetLogging(Struct, kw_only=True, forbid_unknown_fields=True):
    #: Whether Cloud Logging stores the logs of the TPU's hosts from now on.
    enabled: bool


class TPULogging(Struct, kw_only=True):
    tpu: str
    zone: str
    project: str
    emulated: bool
    #: Whether the logs are stored: false where an exclusion that was made here keeps them out.
    enabled: bool
    #: What finds the logs in Cloud Logging.
    filter: str
    #: What storing a GiB costs, beyond the free GiB that a project has each month.
    usd_per_gib: float
    free_gib: int
    #: Of when the price is.
    price_date: str

"""Prices as they were last read from Google."""

from __future__ import annotations

from msgspec import Struct

from ...catalog import ChipPrice


class PriceList(Struct, kw_only=True):
    """Prices per chip and hour, in USD. What is about to be created costs so much, about."""

    #: When Google's Cloud Billing Catalog was last read; "" if it never was: all are shipped ones.
    read: str = ""
    prices: list[ChipPrice]
    #: Descriptions of prices for TPUs that were not understood, so that they are not in *prices*.
    unknown: list[str] = []

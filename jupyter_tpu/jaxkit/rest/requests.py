"""Reads the bodies of REST requests; light enough for the server's own process."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ...errors import InvalidInput

T = TypeVar("T", bound=msgspec.Struct)


def decode(kind: type[T], body: bytes) -> T:
    """*body* (JSON) as a *kind*; raises `InvalidInput` with the place of the error."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"The request is not valid: {error}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(
            f"The request is not JSON: {error}.",
            "NaN and Infinity are not numbers in JSON." if b"N" in body or b"I" in body else "",
        ) from None

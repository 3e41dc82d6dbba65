"""The bodies of REST's requests, read; light enough for the server's own process."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ...errors import InvalidInput

T = TypeVar("T", bound=msgspec.Struct)


def decode(kind: type[T], body: bytes) -> T:
    """*body* (JSON) as a *kind*; `TPUError` (INVALID) says where it is not one."""
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise InvalidInput(f"The request is not as it should be: {error}.") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInput(
            f"The request is not JSON: {error}.",
            "NaN and Infinity are not numbers in JSON." if b"N" in body or b"I" in body else "",
        ) from None

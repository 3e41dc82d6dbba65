"""The bodies and answers of REST's requests to jaxkit, defined once.

Sizes are in bytes. Unknown fields of a request are errors, so that a misspelt field does not pass
for a default.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from ...errors import InvalidInput
from ..arrays import ArrayRequest, Generation, Shape

Implementation = Literal["threefry2x32", "rbg", "unsafe_rbg"]


class KeyRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A key: from a seed, or from the data of an existing key."""

    seed: int | None = None
    #: The uint32 numbers of a key, as an earlier answer gave them.
    data: list[Annotated[int, Meta(ge=0, lt=1 << 32)]] | None = None
    implementation: Implementation = "threefry2x32"


class SplitRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST jax/prng/split: a key to continue with, and *num* keys to use."""

    key: KeyRequest
    num: int = 1


class FoldRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST jax/prng/fold: the key of a domain and numbers; without a domain, ``fold_in``."""

    key: KeyRequest
    data: list[int] = []
    domain: str | None = None


class SampleRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST jax/prng/sample: any distribution of ``jax.random``, sampled on the CPU."""

    key: KeyRequest
    distribution: str
    #: Unset: the shape that the parameters give.
    shape: Shape | UnsetType = UNSET
    dtype: str | None = None
    parameters: dict[str, Any] = {}
    #: "auto": JSON up to 10,000 numbers, .npy beyond.
    format: Literal["auto", "json", "npy"] = "auto"


class KeyDescription(Struct, kw_only=True):
    """A key's data, and what else its numbers depend on."""

    implementation: str
    threefry_partitionable: bool
    x64: bool
    jax_version: str
    #: The uint32 numbers; nested where it is an array of keys.
    data: list[Any]
    #: Made by ``jax.random.key``, not by ``PRNGKey``.
    typed: bool = True
    note: str = ""


class SplitAnswer(Struct, kw_only=True):
    key: KeyDescription
    subkeys: list[list[int]]


class SampleAnswer(Struct, kw_only=True):
    """JAX's numbers, bit for bit; NaN and infinities as the strings of that name."""

    distribution: str
    shape: Shape
    dtype: str
    values: Any
    key: KeyDescription


class TilingRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST jax/tiling."""

    arrays: dict[str, ArrayRequest]
    generation: Generation = "v5e"


class Answer(Struct, kw_only=True):
    """What the worker returns to the server: a body, its type and headers."""

    content_type: str
    body: bytes
    headers: dict[str, str] = {}


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

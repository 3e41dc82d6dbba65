"""Answers REST requests by name, from JSON to bytes. Runs in the worker process."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np

from ...errors import InvalidInput, Reason, TPUError
from ..arrays import flat_arrays
from ..sharding.models import PlacementRequest
from .models import (
    Answer,
    FoldRequest,
    KeyDescription,
    KeyRequest,
    SampleAnswer,
    SampleRequest,
    SplitAnswer,
    SplitRequest,
    TilingRequest,
    decode,
)

#: Elements of any array made on the way to an answer: 16 MiB of float32.
MAX_ELEMENTS = 1 << 22
MAX_KEYS = 1 << 18
#: More numbers than this go out as .npy unless JSON was asked for.
JSON_ELEMENTS = 10_000
_MOST_JSON = 100_000
_JSON = "application/json"


def answer(name: str, body: bytes) -> Answer:
    """The answer to the request *name* ("prng/split"); raises `TPUError`."""
    if name not in _REQUESTS:
        raise TPUError(f"Unknown request {name!r}.", Reason.NOT_FOUND)
    kind, respond = _REQUESTS[name]
    return respond(decode(kind, body))


def split(request: SplitRequest) -> Answer:
    """POST jax/prng/split."""
    import jax

    key, note = make_key(request.key)
    if request.num < 1:
        raise InvalidInput(f"num is the number of keys, at least 1; it is {request.num}.")
    if request.num > MAX_KEYS:
        raise InvalidInput(
            f"{request.num:,} keys are too many for one answer; {MAX_KEYS:,} are allowed.",
            "Split one key, and split it again where it is used.",
        )
    keys = jax.random.split(key, request.num + 1)
    split_answer = SplitAnswer(key=describe_key(keys[0], note), subkeys=_data(keys[1:]))
    return Answer(content_type=_JSON, body=msgspec.json.encode(split_answer))


def fold(request: FoldRequest) -> Answer:
    """POST jax/prng/fold."""
    import jax

    from ..keys import fold_data, fold_key

    key, note = make_key(request.key)
    if request.domain is not None:
        folded = fold_key(key, request.domain, *request.data)
    else:
        folded = key
        for number in request.data:
            folded = jax.random.fold_in(folded, fold_data(number))
    return Answer(content_type=_JSON, body=msgspec.json.encode(describe_key(folded, note)))


def draw(request: SampleRequest) -> Answer:
    """POST jax/prng/sample."""
    from .sampling import sample

    key, note = make_key(request.key)
    shape = None if request.shape is msgspec.UNSET else request.shape
    drawn = np.asarray(
        sample(
            request.distribution,
            key,
            shape,
            request.dtype,
            _parameters(request.parameters),
            MAX_ELEMENTS,
        )
    )
    about = describe_key(key, note)
    as_json = request.format == "json" or (request.format == "auto" and drawn.size <= JSON_ELEMENTS)
    if not as_json:
        return _npy(drawn, about)
    if drawn.size > _MOST_JSON:
        raise InvalidInput(
            f"{drawn.size:,} numbers are too many for JSON; {_MOST_JSON:,} are allowed.",
            "Omit the format, or set it to npy.",
        )
    sample_answer = SampleAnswer(
        distribution=request.distribution,
        shape=list(drawn.shape),
        dtype=str(drawn.dtype),
        values=_finite(_plain(drawn).tolist()),
        key=about,
    )
    return Answer(content_type=_JSON, body=msgspec.json.encode(sample_answer))


def place(request: PlacementRequest) -> Answer:
    """POST jax/placement."""
    from ..sharding import placement as placing

    return Answer(content_type=_JSON, body=msgspec.json.encode(placing.place(request)))


def tile(request: TilingRequest) -> Answer:
    """POST jax/tiling."""
    from ..tiles import tiling_table

    arrays = {
        name: (tuple(row.shape or ()), row.dtype)
        for name, row in flat_arrays(request.arrays).items()
    }
    table = tiling_table(arrays, request.generation)
    return Answer(content_type=_JSON, body=msgspec.json.encode(table))


def make_key(request: KeyRequest) -> tuple[Any, str]:
    """The key, and a note if the seed is not fully used."""
    import jax

    if (request.seed is None) == (request.data is None):
        raise InvalidInput("Set either the seed or the data of a key.")
    if request.data is not None:
        words = 2 if request.implementation == "threefry2x32" else 4
        if len(request.data) != words:
            raise InvalidInput(
                f"The data of a {request.implementation} key are {words} numbers, not "
                f"{len(request.data)}.",
            )
        data = np.array(request.data, dtype=np.uint32)
        return jax.random.wrap_key_data(jax.numpy.asarray(data), impl=request.implementation), ""
    seed = request.seed
    assert seed is not None
    low = seed % (1 << 32)
    if not -(1 << 63) <= seed < 1 << 63:
        raise InvalidInput(
            "A seed is from -2**63 to 2**63 - 1.",
            f"JAX uses only the low 32 bits, here {low}: use that as the seed.",
        )
    note = (
        "" if seed == low else f"JAX uses the low 32 bits of a seed: this is the key of seed {low}."
    )
    return jax.random.key(seed, impl=request.implementation), note


_REQUESTS: dict[str, tuple[Any, Callable[[Any], Answer]]] = {
    "prng/split": (SplitRequest, split),
    "prng/fold": (FoldRequest, fold),
    "prng/sample": (SampleRequest, draw),
    "placement": (PlacementRequest, place),
    "tiling": (TilingRequest, tile),
}


def describe_key(key: Any, note: str = "") -> KeyDescription:
    """What the numbers of *key* depend on: implementation, flags, jax's version, data.

    The same data gives other numbers with another implementation, or with the other value of the
    flag ``jax_threefry_partitionable``.
    """
    import jax

    from ..keys import implementation, typed

    config: Any = jax.config  # type checkers do not know its flags
    return KeyDescription(
        implementation=implementation(key),
        threefry_partitionable=bool(config.jax_threefry_partitionable),
        x64=bool(config.jax_enable_x64),
        jax_version=jax.__version__,
        typed=typed(key),
        data=_data(key),
        note=note,
    )


def _data(keys: Any) -> list[list[int]]:
    import jax

    return np.asarray(jax.random.key_data(keys)).tolist()


def _parameters(given: dict[str, Any]) -> dict[str, Any]:
    for name in ("shape", "dtype"):
        if name in given:
            raise InvalidInput(f"{name} belongs next to the parameters, not in them.")
    return given


def _npy(drawn: np.ndarray, about: KeyDescription) -> Answer:
    """A .npy file; dtypes that numpy lacks are stored as integers and named in a header."""
    stored = drawn
    if drawn.dtype.kind == "V" or drawn.dtype.name not in np.sctypeDict:
        stored = drawn.view(np.dtype(f"u{drawn.dtype.itemsize}"))
    buffer = io.BytesIO()
    np.save(buffer, stored, allow_pickle=False)
    return Answer(
        content_type="application/x-npy",
        body=buffer.getvalue(),
        headers={"Jax-Dtype": drawn.dtype.name, "Jax-Key": msgspec.json.encode(about).decode()},
    )


def _plain(drawn: np.ndarray) -> np.ndarray:
    """Numbers for JSON: small floats as float32, small integers as int32, without loss."""
    if drawn.dtype.name in np.sctypeDict and drawn.dtype.kind in "biuf":
        return drawn
    if drawn.dtype.kind == "c":
        return np.stack([drawn.real, drawn.imag], axis=-1)
    return drawn.astype(np.int32 if "int" in drawn.dtype.name else np.float32)


def _finite(values: Any) -> Any:
    if isinstance(values, list):
        return [_finite(value) for value in values]
    if isinstance(values, float) and not math.isfinite(values):
        return "NaN" if math.isnan(values) else "Infinity" if values > 0 else "-Infinity"
    return values

"""What a session on this computer says without pickles: arrays, numbers, texts, and lists of them.

Nothing is unpickled. A manifest counts only with the signature of this user's key, but a host has
that key, too: so sizes are checked against the files that are here before memory is taken.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ...errors import Reason, TPUError
from ...on_host.agent.session import plain, storage
from ...session_key import VARIABLE, session_variables
from ..models import Session
from .computer import folder

#: Why a variable is not read here.
PICKLED = "it would have to be unpickled here: restore it in a kernel on a TPU"
MISSING = "a part of it is missing on this computer"
#: Results of cells, which are no variables.
_RESULT = "Out["


class ReadSession(NamedTuple):
    """values: by name. reasons: why others are not here. about: the TPU that has saved it."""

    values: dict[str, Any]
    reasons: dict[str, str]
    saved: float
    about: dict[str, Any]


class Unreadable(Exception):
    """Why an array can't be read here."""


def read_session(session: Session) -> ReadSession:
    """Raises TPUError if it is not on this computer, or not this user's."""
    here = folder(session.id)
    key = bytes.fromhex(session_variables(agents=False).get(VARIABLE, ""))
    try:
        data = (here / storage.manifest_path(session.name)).read_bytes()
        manifest = storage.read_manifest(
            session.name, data, key, storage.SessionErrors("on this computer")
        )
    except FileNotFoundError:
        raise TPUError(
            f"The session {session.name} is not on this computer any more.", Reason.NOT_FOUND
        ) from None
    except storage.SessionError as error:
        raise TPUError(str(error), Reason.CONFLICT) from None
    arrays = _Arrays(here / storage.data_path(session.name) / "arrays", manifest["arrays"])
    said = manifest.get("plain") or {}
    encoded = said["values"] if said.get("version") == plain.VERSION else {}
    values: dict[str, Any] = {}
    reasons: dict[str, str] = {}
    for name in manifest["order"]:
        if name.startswith(_RESULT):
            continue
        if name in manifest["reasons"]:
            reasons[name] = manifest["reasons"][name]
        elif name not in encoded:
            reasons[name] = PICKLED
        else:
            try:
                values[name] = plain.decode(encoded[name], arrays.get)
            except FileNotFoundError:
                reasons[name] = MISSING
            except (Unreadable, OSError) as error:
                reasons[name] = str(error)
            except (plain.NotPlain, ValueError, TypeError, LookupError, RecursionError):
                reasons[name] = "what is stored of it is damaged"
    return ReadSession(values, reasons, float(manifest["saved"]), manifest["about"])


class _Arrays:
    """The arrays of a session by key, each once."""

    def __init__(self, top: Path, records: dict[str, Any]) -> None:
        self._top, self._records = top, records
        self._read: dict[str, Any] = {}

    def get(self, key: str) -> Any:
        if key not in self._read:
            self._read[key] = self._made(self._records[key], self._top / Path(key).name)
        return self._read[key]

    def _made(self, record: dict[str, Any], path: Path) -> Any:
        if "key" in record:
            raise Unreadable("a random key of JAX: restore it in a kernel on a TPU")
        array = _read_zarr(path, tuple(record["shape"]), _dtype(record["dtype"]))
        return array.T if record["kind"] == "numpy" and record["order"] == "F" else array


def _dtype(name: str) -> Any:
    import numpy as np

    try:
        return np.dtype(name)
    except TypeError:
        try:
            import ml_dtypes
        except ImportError:
            raise Unreadable(f"its type {name} needs the package ml_dtypes here") from None
        return np.dtype(getattr(ml_dtypes, name))


def _read_zarr(path: Path, shape: tuple[int, ...], dtype: Any) -> Any:
    """An array as `agent.session.arrays` writes it: of Zarr's third format, not compressed."""
    import numpy as np

    if not math.prod(shape):
        return np.zeros(shape, dtype)
    described = json.loads((path / "zarr.json").read_bytes())
    stored = _dtype(described["data_type"])
    chunk = tuple(described["chunk_grid"]["configuration"]["chunk_shape"])
    there = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    if len(chunk) != len(shape) or min(chunk, default=1) < 1:
        raise Unreadable("what is stored of it is damaged")
    if math.prod(shape) * stored.itemsize > there:
        raise Unreadable(MISSING)
    array = np.empty(shape, stored)
    for index in _indices(shape, chunk):
        data = path.joinpath("c", *map(str, index)).read_bytes()
        part = np.frombuffer(data, stored.newbyteorder("<")).reshape(chunk)
        place = tuple(
            slice(number * size, min(number * size + size, length))
            for number, size, length in zip(index, chunk, shape, strict=True)
        )
        array[place] = part[tuple(slice(0, one.stop - one.start) for one in place)]
    return array.astype(dtype, copy=False)


def _indices(shape: tuple[int, ...], chunk: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    counts = (-(-length // size) for length, size in zip(shape, chunk, strict=True))
    return itertools.product(*map(range, counts))

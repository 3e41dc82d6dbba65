"""Data frames of pandas by their columns, without pickle.

Columns of NumPy's dtypes, of text, and of objects that are plain values; indexes of one level. Of
others, `encode_frame` gives None: they have to be pickled.
"""

from __future__ import annotations

import sys
from typing import Any, Callable

#: dtypes of pandas whose values are sent as a list.
_LISTS = ("object", "str", "string")

#: Encodes a value at a place, or an array: then None for one of an unknown dtype.
Encode = Callable[[Any, str], Any]
Decode = Callable[[Any, str], Any]


def encode_frame(value: Any, path: str, encode: Encode, array: Encode) -> list[Any] | None:
    """A DataFrame or Series; None for anything else."""
    pandas = sys.modules.get("pandas")
    if pandas is None or type(value) not in (pandas.DataFrame, pandas.Series):
        return None

    def column(values: Any, place: str) -> Any:
        if str(values.dtype) in _LISTS:
            return [str(values.dtype), encode(values.tolist(), place)]
        known = type(values.dtype).__module__.partition(".")[0] == "numpy"
        coded = array(values.to_numpy(), place) if known else None
        return coded and ["numpy", coded]

    def index(values: Any) -> Any:
        place = f"{path}.index"
        if type(values) is pandas.RangeIndex:
            steps = [values.start, values.stop, values.step]
            return ["range", encode(values.name, place), steps]
        if type(values) not in (pandas.Index, pandas.DatetimeIndex, pandas.TimedeltaIndex):
            return None
        coded = column(values, place)
        return coded and ["index", encode(values.name, place), coded]

    if type(value) is pandas.Series:
        parts = [index(value.index), encode(value.name, path), column(value, path)]
    else:
        names = [f"{path}[{name!r}]" for name in value.columns]
        columns = [column(value.iloc[:, i], name) for i, name in enumerate(names)]
        parts = [index(value.index), index(value.columns), *columns]
    if any(part is None for part in (parts[0], *parts[2:])) or (
        type(value) is pandas.DataFrame and parts[1] is None
    ):
        return None
    return [type(value).__name__, *parts]


def decode_frame(kind: str, parts: list[Any], path: str, decode: Decode) -> Any:
    """What `encode_frame` wrote, with pandas. Raises ImportError if it is not installed."""
    import pandas

    def column(coded: list[Any]) -> Any:
        dtype, values = coded
        return decode(values, path), (dtype if dtype in _LISTS else None)

    def index(coded: list[Any]) -> Any:
        how, name, values = coded
        if how == "range":
            return pandas.RangeIndex(*values, name=decode(name, path))
        data, dtype = column(values)
        return pandas.Index(data, dtype=dtype, name=decode(name, path))

    rows = index(parts[0])

    def series(coded: list[Any], name: Any = None) -> Any:
        data, dtype = column(coded)
        return pandas.Series(data, index=rows, dtype=dtype, name=name)

    if kind == "Series":
        return series(parts[2], decode(parts[1], path))
    frame = pandas.DataFrame({i: series(part) for i, part in enumerate(parts[2:])}, index=rows)
    frame.columns = index(parts[1])
    return frame

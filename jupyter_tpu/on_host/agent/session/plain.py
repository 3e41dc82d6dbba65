"""Variables without pickles: what a manifest says of them, for readers that must not unpickle.

A value is JSON. Numbers, strings, booleans and null are themselves; the rest is an object with one
key:

    {"list": [VALUE…]}, {"tuple": […]}, {"set": […]}, {"frozenset": […]}
    {"dict": [[VALUE, VALUE]…]}
    {"float": "nan"}, {"complex": [REAL, IMAGINARY]}, {"bytes": BASE64}
    {"array": KEY}                         one of the session's arrays
    {"numpy": [DTYPE, SHAPE, BASE64]}      a small one
    {"range": […]}, {"slice": […]}

What they are made of is of exactly these types: a subclass is more than it shows.
"""

import base64
import math
import sys

#: The version of this form. Another one is not read.
VERSION = 1
#: What is larger, or deeper, is only in the pickles: characters of one variable and of all, levels.
MOST_OF_ONE, MOST_OF_ALL, DEEPEST = 256 << 10, 4 << 20, 20

_SEQUENCES: "dict[type, str]" = {list: "list", tuple: "tuple", set: "set", frozenset: "frozenset"}
_MAKERS = {name: kind for kind, name in _SEQUENCES.items()}


class NotPlain(Exception):
    """A value has no such form, or is too large."""


def encode_all(variables, key_of):
    """{name: VALUE} of those that have one. key_of: the key of an array of the session, or None."""
    values, left = {}, MOST_OF_ALL
    for name, value in variables.items():
        try:
            limit = min(left, MOST_OF_ONE)
            encoder = _Encoder(key_of, limit)
            values[name] = encoder.encode(value, 0)
            left -= limit - encoder.left
        except Exception:  # a reader without pickles does not get it
            continue
    return values


class _Encoder:
    def __init__(self, key_of, left):
        self._key_of, self.left = key_of, left

    def encode(self, value, depth):
        kind = type(value)
        self.left -= 8 + (len(value) if kind in (str, bytes) else 0)
        if self.left < 0 or depth > DEEPEST:
            raise NotPlain
        if value is None or kind in (bool, str):
            return value
        if kind is int:
            self.left -= value.bit_length() // 3
            return value
        if kind is float:
            return value if math.isfinite(value) else {"float": repr(value)}
        if kind is complex:
            return {"complex": [self.encode(value.real, depth), self.encode(value.imag, depth)]}
        if kind is bytes:
            return {"bytes": base64.b64encode(value).decode()}
        if kind in _SEQUENCES:
            return {_SEQUENCES[kind]: [self.encode(each, depth + 1) for each in value]}
        if kind is dict:
            pairs = [
                [self.encode(key, depth + 1), self.encode(each, depth + 1)]
                for key, each in value.items()
            ]
            return {"dict": pairs}
        if kind is range:
            return {"range": [value.start, value.stop, value.step]}
        if kind is slice:
            parts = value.start, value.stop, value.step
            return {"slice": [self.encode(part, depth + 1) for part in parts]}
        return self._array(value)

    def _array(self, value):
        key = self._key_of(value)
        if key is not None:
            return {"array": key}
        numpy = sys.modules.get("numpy")
        if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic)):
            raise NotPlain
        if type(value) is not numpy.ndarray and not isinstance(value, numpy.generic):
            raise NotPlain
        if value.dtype.kind not in "biufc" or value.dtype.isbuiltin != 1:
            raise NotPlain
        self.left -= 2 * value.nbytes
        if self.left < 0:
            raise NotPlain
        data = base64.b64encode(numpy.ascontiguousarray(value).tobytes()).decode()
        return {"numpy": [value.dtype.name, list(value.shape), data]}


def decode(value, array_of):
    """The value. array_of: returns the array of a key. Raises `NotPlain` for what is not known."""
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise NotPlain
        return value
    if len(value) != 1:
        raise NotPlain
    [(kind, content)] = value.items()
    if kind in _MAKERS:
        return _MAKERS[kind](decode(each, array_of) for each in content)
    if kind == "dict":
        return {decode(key, array_of): decode(each, array_of) for key, each in content}
    if kind == "float":
        return float(content)
    if kind == "complex":
        return complex(*(decode(part, array_of) for part in content))
    if kind == "bytes":
        return base64.b64decode(content, validate=True)
    if kind == "range":
        return range(*map(int, content))
    if kind == "slice":
        return slice(*(decode(part, array_of) for part in content))
    if kind == "array":
        return array_of(content)
    if kind == "numpy":
        return _small(*content)
    raise NotPlain


def _small(name, shape, data):
    import numpy

    dtype = numpy.dtype(name)
    if dtype.kind not in "biufc":
        raise NotPlain
    array = numpy.frombuffer(base64.b64decode(data, validate=True), dtype).reshape(shape).copy()
    return array if shape else array[()]

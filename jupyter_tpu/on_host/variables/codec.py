"""Values as JSON and raw buffers. Reading them runs no code of their sender.

Plain values are what is built in, NumPy and JAX arrays, data frames, and lists, tuples, dicts and
sets of these: a number stands for itself, everything else is ``[tag, ...]``, and the bytes of an
array are a buffer of its own. Any other object is pickled (protocol 5, its arrays as buffers, too),
and only if the caller allows it: unpickling can run any code.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import pickle
import pickletools
import sys
from collections.abc import Collection
from typing import Any

from .frames import decode_frame, encode_frame

#: Numbers beyond these are written in hexadecimal: JSON's reader limits the digits of an int.
_LARGE_INT = 1 << 63
#: Roughly the bytes of a number in JSON, for the limit.
_NUMBER_BYTES = 8


class CodecError(Exception):
    """Why a value can't be sent or read, in one sentence."""


class NeedsPickle(CodecError):
    """It could be sent if pickling were allowed."""


def encode(
    values: dict[str, Any], *, pickled: bool, limit: float = math.inf
) -> tuple[bytes, list[memoryview]]:
    """*values* by name, as a header and buffers.

    pickled: whether objects of other classes may be pickled.
    limit: bytes; a larger value raises `CodecError` before its arrays are copied.
    """
    encoder = _Encoder(pickled, limit)
    try:
        coded = {name: encoder.encode(value, name) for name, value in values.items()}
    except RecursionError:
        raise CodecError(f"{', '.join(values)}: nested too deeply, or contains itself.") from None
    header = {
        "values": coded,
        "sizes": [buffer.nbytes for buffer in encoder.buffers],
        "python": list(sys.version_info[:2]),
    }
    return json.dumps(header).encode(), encoder.buffers


def parse_header(data: bytes | bytearray) -> dict[str, Any]:
    """The header that `encode` made, as far as its reader needs it: its ``sizes`` are numbers.

    Raises `CodecError`.
    """
    try:
        header = json.loads(data)
        sizes = header["sizes"]
        if all(type(size) is int and size >= 0 for size in sizes):
            return {"values": header["values"], "python": header["python"], "sizes": list(sizes)}
    except (LookupError, TypeError, ValueError, RecursionError):
        pass
    raise CodecError("What was sent has no header that can be read.")


def decode(
    header: Any,
    buffers: list[Any],
    *,
    unpickle: bool,
    import_jax: bool,
    names: Collection[str] | None = None,
) -> dict[str, Any]:
    """The values by name; *buffers* are writable and become the memory of the arrays.

    unpickle: whether pickled objects are read, which can run code of the sender.
    import_jax: whether JAX is imported for its arrays. Else they are NumPy arrays where it is not
        imported yet.
    names: those that were asked for; None: any.

    Raises `CodecError` and nothing else, whatever the sender has written.
    """
    try:
        decoder = _Decoder(header, buffers, unpickle, import_jax)
        coded = header["values"]
        if names is not None and coded.keys() != {*names}:
            raise CodecError("Other variables were sent than those that were asked for.")
        return {name: decoder.decode(coded_value, name) for name, coded_value in coded.items()}
    except CodecError:
        raise
    except Exception as error:  # of Python, NumPy, JAX or pandas, about what no `encode` writes
        raise CodecError(
            f"What was sent is not what it says: {type(error).__name__}: {error}"
        ) from None


class _Encoder:
    def __init__(self, pickled: bool, limit: float) -> None:
        self.buffers: list[memoryview] = []
        self._pickled = pickled
        self._left = limit

    def encode(self, value: Any, path: str) -> Any:
        kind = type(value)
        if value is None or kind in (bool, float):
            self._spend(_NUMBER_BYTES, path)
            return value
        if kind is int:
            self._spend(_NUMBER_BYTES, path)
            return value if -_LARGE_INT < value < _LARGE_INT else ["int", hex(value)]
        if kind is str:
            self._spend(len(value), path)
            return value
        if kind is complex:
            return ["complex", value.real, value.imag]
        if kind in (bytes, bytearray):
            return [kind.__name__, self._buffer(value, path)]
        if kind in (list, tuple, set, frozenset):
            self._spend(_NUMBER_BYTES, path)
            items = [self.encode(item, f"{path}[{i}]") for i, item in enumerate(value)]
            return [kind.__name__, *items]
        if kind is dict:
            self._spend(_NUMBER_BYTES, path)
            pairs = [
                [self.encode(key, f"a key of {path}"), self.encode(item, f"{path}[{key!r}]")]
                for key, item in value.items()
            ]
            return ["dict", *pairs]
        return (
            self._array(value, path)
            or self._named_tuple(value, path)
            or self._frame(value, path)
            or self._any(value, path)
        )

    def _named_tuple(self, value: Any, path: str) -> list[Any] | None:
        kind = type(value)
        fields = getattr(kind, "_fields", None)
        if not isinstance(value, tuple) or kind.__mro__[1:] != (tuple, object) or fields is None:
            return None
        items = [
            self.encode(item, f"{path}.{field}") for field, item in zip(fields, value, strict=True)
        ]
        return ["namedtuple", kind.__module__, kind.__qualname__, list(fields), *items]

    def _array(self, value: Any, path: str) -> list[Any] | None:
        numpy, jax = sys.modules.get("numpy"), sys.modules.get("jax")
        if jax is not None and isinstance(value, jax.Array):
            return self._jax_array(jax, value, path)
        if numpy is None:
            return None
        if isinstance(value, numpy.generic):
            coded = self._array(numpy.asarray(value), path)
            return coded and ["scalar", coded]
        if type(value) is not numpy.ndarray:
            return None
        dtype = _dtype_name(value.dtype)
        if dtype is None:
            return None
        self._spend(value.nbytes, path)
        fortran = value.flags.f_contiguous and not value.flags.c_contiguous
        flat = numpy.ascontiguousarray(value.T if fortran else value)
        index = self._buffer(flat.reshape(-1).view(numpy.uint8), path, spent=True)
        return ["array", dtype, list(value.shape), "F" if fortran else "C", index]

    def _jax_array(self, jax: Any, value: Any, path: str) -> list[Any]:
        import numpy

        if isinstance(value, jax.core.Tracer):
            raise CodecError(f"{path} is a tracer: it has no value outside of its function.")
        if not (value.is_fully_addressable or value.is_fully_replicated):
            raise CodecError(
                f"{path} is spread over several hosts. Gather it first, with "
                "jax.experimental.multihost_utils.process_allgather."
            )
        if value.is_deleted():
            raise CodecError(f"{path} was deleted: its memory was donated.")
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            data = self._jax_array(jax, jax.random.key_data(value), path)
            return ["key", str(jax.random.key_impl(value)), data]
        self._check(value.nbytes, path)  # before it is copied from its devices
        coded = self._array(numpy.asarray(value), path)
        if coded is None:
            raise CodecError(f"{path} has the dtype {value.dtype}, which can't be sent.")
        return ["jax", coded]

    def _frame(self, value: Any, path: str) -> list[Any] | None:
        already = len(self.buffers)
        try:
            coded = encode_frame(value, path, self.encode, self._array)
        except NeedsPickle:  # an object in a column
            coded = None
        if coded is None:
            del self.buffers[already:]
        return coded

    def _any(self, value: Any, path: str) -> list[Any]:
        kind = type(value).__qualname__
        if type(value).__module__ != "builtins":
            kind = f"{type(value).__module__}.{kind}"
        if not self._pickled:
            raise NeedsPickle(f"{path} is of the class {kind}.")
        out: list[pickle.PickleBuffer] = []
        try:
            data = _pickled(value, out)
            raw = [buffer.raw() for buffer in out]
        except RecursionError:
            raise
        except Exception as error:  # whatever the object's own class raises
            raise CodecError(
                f"{path} is of the class {kind}, which can't be pickled: {error}"
            ) from None
        return ["pickle", self._buffer(data, path), [self._buffer(buffer, path) for buffer in raw]]

    def _buffer(self, data: Any, path: str, *, spent: bool = False) -> int:
        view = memoryview(data).cast("B") if len(data) else memoryview(b"")
        if not spent:
            self._spend(view.nbytes, path)
        self.buffers.append(view)
        return len(self.buffers) - 1

    def _spend(self, size: int, path: str) -> None:
        self._check(size, path)
        self._left -= size

    def _check(self, size: int, path: str) -> None:
        if size > self._left:
            raise CodecError(f"{path} is larger than the limit.")


class _Decoder:
    def __init__(
        self, header: dict[str, Any], buffers: list[Any], unpickle: bool, import_jax: bool
    ) -> None:
        self._python = tuple(header["python"])
        self._buffers = buffers
        self._unpickle = unpickle
        self._import_jax = import_jax

    def decode(self, coded: Any, path: str) -> Any:
        if not isinstance(coded, list):
            return coded
        tag, *rest = coded
        if tag in ("list", "tuple", "set", "frozenset"):
            kind = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[tag]
            return kind(self.decode(item, path) for item in rest)
        if tag == "dict":
            return {self.decode(key, path): self.decode(item, path) for key, item in rest}
        if tag == "namedtuple":
            module, name, fields, *items = rest
            return _named_tuple(module, name, fields)(*(self.decode(item, path) for item in items))
        if tag == "int":
            return int(rest[0], 16)
        if tag == "complex":
            return complex(*rest)
        if tag in ("bytes", "bytearray"):
            return (bytes if tag == "bytes" else bytearray)(self._buffers[rest[0]])
        if tag == "array":
            return self._array(path, *rest)
        if tag == "scalar":
            return self.decode(rest[0], path)[()]
        if tag == "jax":
            return self._jax_array(self.decode(rest[0], path))
        if tag == "key":
            return self._key(path, *rest)
        if tag in ("DataFrame", "Series"):
            try:
                return decode_frame(tag, rest, path, self.decode)
            except ImportError:
                raise CodecError(f"{path} needs pandas: pip install pandas") from None
        if tag == "pickle":
            return self._pickled(path, *rest)
        raise CodecError(f"{path} has a part that is not known: {tag!r}.")

    def _array(self, path: str, name: str, shape: list[int], order: str, index: int) -> Any:
        numpy = _numpy(path)
        dtype = _dtype(name, path)
        if 0 in shape:
            return numpy.empty(shape, dtype)
        data = numpy.frombuffer(self._buffers[index], numpy.uint8)
        return data.view(dtype).reshape(shape, order=order)

    def _jax_array(self, array: Any) -> Any:
        jax = self._jax()
        if jax is None:
            return array
        if jax.dtypes.canonicalize_dtype(array.dtype) == array.dtype:
            return jax.numpy.asarray(array)
        with jax.enable_x64(True):  # it has 64 bits there
            return jax.numpy.asarray(array)

    def _key(self, path: str, implementation: str, data: Any) -> Any:
        jax = self._jax()
        decoded = self.decode(data, path)
        if jax is None:
            return decoded
        return jax.random.wrap_key_data(decoded, impl=implementation)

    def _jax(self) -> Any:
        if self._import_jax:
            with contextlib.suppress(ImportError):
                import jax

                return jax
        return sys.modules.get("jax")

    def _pickled(self, path: str, index: int, buffers: list[int]) -> Any:
        data = bytes(self._buffers[index])
        if not self._unpickle:
            raise NeedsPickle(f"{path} is pickled.")
        if self._python != sys.version_info[:2] and _has_code(data):
            there, here = (
                ".".join(map(str, version)) for version in (self._python, sys.version_info[:2])
            )
            raise CodecError(
                f"{path} contains code of Python {there}, and Python {here} can't run it."
            )
        try:
            return pickle.loads(data, buffers=[self._buffers[buffer] for buffer in buffers])
        except Exception as error:  # whatever the object's class raises, if it is there
            raise CodecError(
                f"{path} can't be unpickled: {type(error).__name__}: {error}"
            ) from None


def _pickled(value: Any, out: list[pickle.PickleBuffer]) -> bytes:
    """With cloudpickle where it is installed: it also pickles what a notebook defines."""
    try:
        from cloudpickle import Pickler
    except ImportError:
        from pickle import Pickler

    class ArrayPickler(Pickler):
        """Leaves the bytes of JAX's arrays outside, as pickle itself does it with NumPy's."""

        def reducer_override(self, value: Any) -> Any:
            jax = sys.modules.get("jax")
            if jax is not None and isinstance(value, jax.Array):
                import numpy

                if not jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
                    return jax.numpy.asarray, (numpy.asarray(value),)
            inherited = getattr(super(), "reducer_override", None)
            return NotImplemented if inherited is None else inherited(value)

    file = io.BytesIO()
    ArrayPickler(file, protocol=5, buffer_callback=out.append).dump(value)
    return file.getvalue()


def _has_code(data: bytes) -> bool:
    """Whether the pickle has functions or classes by value, as cloudpickle writes them."""
    return any(
        isinstance(argument, str) and argument.startswith("cloudpickle.")
        for _, argument, _ in pickletools.genops(data)
    )


def _named_tuple(module: str, name: str, fields: list[str]) -> Any:
    """The class itself if its module is imported here; else one of its name and fields."""
    # A module's own __getattr__ is code that a sender must not choose to run.
    tuple_type = getattr(sys.modules.get(module), "__dict__", {}).get(name)
    if (
        isinstance(tuple_type, type)
        and tuple_type.__mro__[1:] == (tuple, object)
        and list(getattr(tuple_type, "_fields", ())) == fields
    ):
        return tuple_type
    from collections import namedtuple

    return namedtuple(name.rpartition(".")[2], fields, rename=True)


def _dtype_name(dtype: Any) -> str | None:
    """How it is written: NumPy's own as "<f4", those of ml_dtypes as "bfloat16"."""
    if dtype.isbuiltin == 2:
        return str(dtype.name)
    return str(dtype.str) if dtype.kind in "biufcSUmM" and dtype.names is None else None


def _dtype(name: str, path: str) -> Any:
    numpy = _numpy(path)
    if name[:1] in "<>|":
        dtype = numpy.dtype(name)
    else:
        try:
            import ml_dtypes
        except ImportError:
            raise CodecError(
                f"{path} has the dtype {name}, which needs ml_dtypes: pip install ml_dtypes"
            ) from None
        dtype = numpy.dtype(getattr(ml_dtypes, name, object))
    if _dtype_name(dtype) != name:
        raise CodecError(f"{path} has the dtype {name}, which is not known here.")
    return dtype


def _numpy(path: str) -> Any:
    try:
        import numpy
    except ImportError:
        raise CodecError(f"{path} is an array, which needs NumPy: pip install numpy") from None
    return numpy

"""Random keys that cannot collide by accident.

In JAX ``fold_in(key, i)`` *is* ``split(key, n)[i]``, so a key folded with a process's number is
also a split key of another process. Here every key is folded with a domain first: a number of 32
bits with the highest bit set, which ``split`` reaches only with more than 2**31 keys at once.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from ..errors import InvalidInput, TPUError

#: Set in the number of every domain.
_DOMAIN_BIT = 1 << 31
_WORD_VALUES = 1 << 32


def fold_key(
    key: jax.Array, domain: str, *data: Any, process: bool | int | None = None
) -> jax.Array:
    """The key of *domain* (a word: "dropout") and *data* (whole numbers: the step, the layer).

    Another domain or other data give another key, and never one that ``jax.random.split`` gives.
    A number is from 0 to 2**32 - 1; it may be traced (the step inside ``jit``).

    On several hosts every process gets the same key. *process*: True for a key of this process
    alone, or the index of a process for the key of that one. Raises `InvalidInput` for what is not
    a single key, for an empty domain, and for other numbers.
    """
    if not isinstance(domain, str) or not domain:
        raise InvalidInput("The domain of a key is a word, such as 'dropout'.")
    folded = _fold(one_key(key), f"user:{len(data)}:{domain}", *data)
    if process is None or process is False:
        return folded
    return process_key(folded, None if process is True else process)


def process_key(key: jax.Array, index: Any = None) -> jax.Array:
    """The key of this process (of process *index*): never one that ``jax.random.split`` gives.

    Raises `InvalidInput` for what is not a single key, and if *index* is not a whole number from 0
    to 2**32 - 1.
    """
    return _fold(one_key(key), "process", jax.process_index() if index is None else index)


def device_keys(key: jax.Array, where: Mesh | int | None = None) -> jax.Array:
    """One key per device, an array of shape ``(devices,)``; none that ``jax.random.split`` gives.

    *where*: a mesh (each device then holds its own key, for ``shard_map`` or a ``vmap`` under
    ``jit``), or a number of devices, or None for all devices of all processes. Without a mesh the
    keys stay on the default device. Raises `InvalidInput` for what is not a single key, and for
    fewer than 1 or more than 2**20 devices.
    """
    key = one_key(key)
    if isinstance(where, Mesh):
        count = where.size
    else:
        count = jax.device_count() if where is None else whole_number(where, "where")
    if not 1 <= count <= 1 << 20:
        raise InvalidInput(f"There can be 1 to {1 << 20} devices, not {count}.")
    numbers = np.arange(count, dtype=np.uint32)
    keys = jax.vmap(lambda number: _fold(key, "device", number))(numbers)
    if not isinstance(where, Mesh):
        return keys
    return _put_on_mesh(keys, where)


def _put_on_mesh(keys: jax.Array, mesh: Mesh) -> jax.Array:
    """*keys*, one on each device of *mesh*; every process calls it with the same keys."""
    if isinstance(keys, jax.core.Tracer):
        sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names))
        if AxisType.Explicit in mesh.axis_types:  # jax.make_mesh's default
            return jax.device_put(keys, sharding)
        return jax.lax.with_sharding_constraint(keys, sharding)

    def place(data: Any) -> jax.Array:
        data = np.asarray(data)
        sharding = NamedSharding(mesh, PartitionSpec(mesh.axis_names, None))
        return jax.make_array_from_callback(data.shape, sharding, lambda index: data[index])

    return on_data(place, keys)


def typed(key: Any) -> bool:
    """Whether *key* is from ``jax.random.key``, and not an old key of uint32 numbers."""
    return isinstance(key, jax.Array) and jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key)


def on_data(act: Callable[[Any], Any], tree: Any) -> Any:
    """``act(tree)``, where *act* sees typed random keys as uint32 arrays of one more dimension.

    jax can't pad keys, nor place them on devices of other processes. The result of *act* has the
    structure of *tree*.
    """

    def back(leaf: Any, result: Any) -> Any:
        if not typed(leaf):
            return result
        return jax.random.wrap_key_data(result, impl=jax.random.key_impl(leaf))

    data = jax.tree.map(lambda leaf: jax.random.key_data(leaf) if typed(leaf) else leaf, tree)
    return jax.tree.map(back, tree, act(data))


def put(tree: Any, where: Any) -> Any:
    """``jax.device_put(tree, where)``, also for keys and devices of other processes."""
    return on_data(lambda data: jax.device_put(data, where), tree)


def implementation(key: Any) -> str:
    """The name of the key's generator: "threefry2x32", "rbg" or "unsafe_rbg"."""
    if typed(key):
        return str(jax.random.key_impl(key))
    return str(_setting("jax_default_prng_impl"))


def is_key(key: Any) -> bool:
    """Whether *key* is a key or an array of keys, typed or old."""
    if typed(key):
        return True
    if not isinstance(key, (jax.Array, np.ndarray)) or key.dtype != np.uint32 or key.ndim < 1:
        return False
    return key.shape[-1] == (2 if implementation(key) == "threefry2x32" else 4)


def one_key(key: Any) -> jax.Array:
    """*key* itself if it is one key; else raises `InvalidInput`, which says what it is."""
    if not is_key(key):
        raise _not_a_key(key)
    shape = key.shape if typed(key) else key.shape[:-1]
    if shape:
        raise InvalidInput(
            f"This is an array of keys of shape {shape}; pass a single key.",
            "Take one of them (keys[0]), or use jax.vmap for all.",
        )
    return key


def whole_number(value: Any, what: str) -> int:
    """*value* as an int; raises `InvalidInput` for booleans, fractions and arrays."""
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise InvalidInput(f"{what} must be a whole number, not {value!r}.") from None


def domain_number(domain: str) -> int:
    """The 32-bit number of *domain*, with the highest bit set."""
    digest = hashlib.sha256(f"jupyter-tpu jaxkit {domain}".encode()).digest()
    return int.from_bytes(digest[:4], "big") | _DOMAIN_BIT


def _fold(key: jax.Array, domain: str, *data: Any) -> jax.Array:
    key = jax.random.fold_in(key, np.uint32(domain_number(domain)))
    for number in data:
        key = jax.random.fold_in(key, fold_data(number))
    return key


def fold_data(number: Any) -> Any:
    """*number* as ``fold_in`` takes it: 32 bits, checked unless it is traced."""
    if isinstance(number, jax.Array):
        if jax.numpy.issubdtype(number.dtype, jax.numpy.integer) and number.ndim == 0:
            # A tracer has no value to check; jax uses its low 32 bits.
            return number
        raise InvalidInput(
            f"Fold whole numbers into a key, not {number.dtype} of shape {number.shape}.",
        )
    value = whole_number(number, "The number folded into a key")
    if not 0 <= value < _WORD_VALUES:
        raise InvalidInput(
            f"Fold numbers from 0 to 2**32 - 1 into a key, not {value}.",
            "Fold larger numbers in pieces: fold_key(key, domain, high, low).",
        )
    return np.uint32(value)


def _setting(name: str) -> Any:
    return getattr(jax.config, name)  # created at run time: unknown to type checkers


def _not_a_key(key: Any) -> TPUError:
    what = getattr(key, "dtype", type(key).__name__)
    shape = getattr(key, "shape", None)
    described = f"{what} of shape {shape}" if shape is not None else f"{what}"
    return InvalidInput(
        f"This is not a random key ({described}).",
        "Make one with jax.random.key(seed).",
    )

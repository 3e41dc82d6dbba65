"""The arrays of a session, each written once, by TensorStore in Zarr's third format.

A JAX array never changes, so that one that was written is not read again. A NumPy array is known by
its content.
"""

import collections
import hashlib
import json
import math
import sys
import uuid
import weakref

from . import placement
from .storage import done

#: NumPy arrays of fewer bytes are in the pickles.
SMALL_BYTES = 32 << 10
#: A chunk, which is a file or an object of a bucket, has at most so many bytes.
CHUNK_BYTES = 64 << 20
#: Bytes of arrays that are on their way to or from the devices at the same time.
IN_FLIGHT_BYTES = 512 << 20


DELETED = "its memory was donated or deleted"


class CannotKeep(Exception):
    """Why an object can't be kept: "an open file"."""


class ArraySet:
    """All arrays that a kernel's session has or had, by key.

    hosts: of the kernel. What is the same on all of them has the same key there.

    Attributes: *kernel*: a random name of the kernel on all hosts. *moment*: what they do, see
    `KernelSession.moment`.
    """

    def __init__(self, hosts):
        self.kernel = self.moment = ""
        self._hosts = hosts
        self._variable, self._number = "", 0  # that is looked at, and of its next array
        self.records = {}  # by key: what is said of an array in the manifest
        self.stored = set()  # keys of which the session before has the content
        self.seen = {}  # keys by ids of arrays, while the variables of a snapshot are there
        self._keys = {}  # by id of a JAX array: it and its key
        self._values = {}  # by key: what is still to be written

    def begin_variable(self, name):
        """The arrays that come now are first seen in this variable."""
        self._variable, self._number = name, 0

    def key_of(self, value):
        """The key of an array that has a place of its own; None for everything else."""
        key = self._key_of(value)
        if key is not None:
            self.seen[id(value)] = key
        return key

    def _key_of(self, value):
        jax, numpy = sys.modules.get("jax"), sys.modules.get("numpy")
        if jax is not None and isinstance(value, jax.Array):
            if isinstance(value, jax.core.Tracer):
                return None
            if value.is_deleted():
                raise CannotKeep(DELETED)
            reference, key = self._keys.get(id(value), (None, ""))
            if reference is None or reference() is not value:
                key = self._add_jax(jax, value)
            if key not in self.stored:
                self._values[key] = value
            return key
        if numpy is None or type(value) is not numpy.ndarray or value.nbytes < SMALL_BYTES:
            return None
        if value.dtype.kind not in "biufc" or value.dtype.isbuiltin not in (1, 2):
            return None
        return self._add_numpy(value)

    def _add_jax(self, jax, value):
        if not value.addressable_shards:
            raise CannotKeep("an array on other hosts only")
        is_key = jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key)
        data = jax.random.key_data(value) if is_key else value
        record = {
            "kind": "jax",
            "shape": list(data.shape),
            "dtype": str(data.dtype),
            "bytes": data.nbytes,
            "weak": bool(getattr(value, "weak_type", False)),
            **_placed(jax, value),
        }
        if is_key:
            record["key"] = str(jax.random.key_impl(value))
        key = uuid.uuid4().hex if self._hosts.count == 1 else self._common_key(record, data)
        self.remember(key, record, value)
        return key

    def _common_key(self, record, data):
        """The key of an array that other hosts have, too: all of it, or each some of it."""
        import numpy

        self._number += 1
        if "hosts" in record:
            content = [self.kernel, self.moment]
        else:
            flat = numpy.ascontiguousarray(data).reshape(-1)
            content = [hashlib.sha256(flat.view(numpy.uint8)).hexdigest()]
        text = json.dumps([self._variable, self._number, record, *content])
        return hashlib.sha256(text.encode()).hexdigest()[:32]

    def _add_numpy(self, value):
        numpy = sys.modules["numpy"]
        fortran = value.flags.f_contiguous and not value.flags.c_contiguous
        flat = numpy.ascontiguousarray(value.T if fortran else value)
        record = {
            "kind": "numpy",
            "shape": list(flat.shape),
            "dtype": value.dtype.name,
            "bytes": value.nbytes,
            "order": "F" if fortran else "C",
        }
        digest = hashlib.sha256(repr(sorted(record.items())).encode())
        digest.update(flat.reshape(-1).view(numpy.uint8))
        key = digest.hexdigest()[:32]
        self.records[key] = record
        if key not in self.stored and key not in self._values:
            self._values[key] = flat.copy()  # cells go on while it is written
        return key

    def restored(self, key, record, array):
        """Takes over an array of a session. It may be elsewhere than it was."""
        if record["kind"] == "jax":
            where = {name: value for name, value in record.items() if name != "hosts"}
            self.remember(key, {**where, **_placed(sys.modules["jax"], array)}, array)

    def remember(self, key, record, array):
        """Takes over a JAX array whose key is known."""
        self.records[key] = record
        self._keys[id(array)] = weakref.ref(array), key

    def keep_only(self, keys):
        """Forgets all other arrays, and what was to be written."""
        self._values.clear()
        self.records = {key: self.records[key] for key in keys if key in self.records}
        self._keys = {
            number: (ref, key) for number, (ref, key) in self._keys.items() if key in keys
        }

    def forget_keys(self):
        """Arrays of several hosts get new keys: these may not be the same on all hosts."""
        kept = {
            number: (ref, key)
            for number, (ref, key) in self._keys.items()
            if not self.hosts_of(key)
        }
        self._keys = kept

    def hosts_of(self, key):
        """The hosts that have parts of an array; () if this host has all of it."""
        return self.records[key].get("hosts", ())

    def bytes_here(self, key):
        """What `write` writes."""
        record, value = self.records[key], self._values.get(key)
        if value is None or not self.hosts_of(key):
            return record["bytes"]
        return record["bytes"] * len(value.addressable_shards) // len(value.sharding.device_set)

    def write(self, key, store, replicas=False):
        """Begins to write an array; returns what is to be waited for. Raises `CannotKeep`.

        replicas: write all that this host has, also if another one has it.
        """
        record, value = self.records[key], self._values.get(key)
        if value is None:
            raise CannotKeep("the session was deleted by another kernel")
        if record["kind"] == "numpy":
            return _write(store, key, record, [((), value)], record["shape"])
        try:
            data = sys.modules["jax"].random.key_data(value) if "key" in record else value
            parts = {
                _hashable(shard.index): (shard.index, shard.data)
                for shard in data.addressable_shards
                if replicas or not shard.replica_id
            }
            shape = data.sharding.shard_shape(data.shape)
            return _write(store, key, record, list(parts.values()), shape)
        except RuntimeError:
            if value.is_deleted():
                raise CannotKeep(DELETED) from None
            raise


def _placed(jax, value):
    """Where an array is, for its record. hosts: if they are several."""
    hosts = sorted({device.process_index for device in value.sharding.device_set})
    return {
        # The sharding of the array itself: that of a key's data has one dimension more.
        "sharding": placement.describe(jax, value.sharding),
        "committed": bool(getattr(value, "committed", True)),
        **({"hosts": hosts} if len(hosts) > 1 else {}),
    }


def _write(store, key, record, parts, shard_shape):
    import numpy

    if not record["bytes"] or not parts:
        return []
    array = _open(store, key, record, shard_shape)
    return [
        (array[index] if index else array).write(
            numpy.asarray(part).astype(_stored(record["dtype"]), copy=False)
        )
        for index, part in parts
    ]


def read(keys, records, store, devices, names, moved=lambda done, total: None):
    """The arrays by key, and why others can't be read: {key: sentence}.

    devices: a `placement.Devices`; None where there is no JAX. names: of a variable that has it,
    by key. moved: called with the bytes that are read, and all.
    """
    arrays, failed, bytes_waiting, done = {}, {}, 0, 0
    total = sum(records[key]["bytes"] for key in keys)
    waiting: "collections.deque" = collections.deque()

    def finish_first():
        nonlocal done
        key, size, finish = waiting.popleft()
        try:
            arrays[key] = finish()
        except Exception as error:  # of TensorStore or JAX, about what is stored
            failed[key] = " ".join(str(error).split())[:200]
        done += size
        moved(done, total)
        return size

    for key in keys:
        record = records[key]
        while waiting and bytes_waiting + record["bytes"] > IN_FLIGHT_BYTES:
            bytes_waiting -= finish_first()
        try:
            finish = _begin_read(key, record, store, devices, names.get(key, "an array"))
        except Exception as error:
            failed[key] = " ".join(str(error).split())[:200]
            continue
        waiting.append((key, record["bytes"], finish))
        bytes_waiting += record["bytes"]
    while waiting:
        finish_first()
    return arrays, failed


def _begin_read(key, record, store, devices, name):
    """Starts to read an array; returns a function that waits and makes it."""
    import numpy

    shape, dtype = tuple(record["shape"]), _numpy_dtype(record["dtype"])
    stored = _open(store, key, record, None) if record["bytes"] else None

    def whole():
        if stored is None:
            return numpy.zeros(shape, dtype)
        return started[()].result().astype(dtype, copy=False)

    if record["kind"] == "numpy" or not record["committed"]:
        started = {(): stored.read()} if stored is not None else {}
        if record["kind"] == "numpy":
            return lambda: whole().T if record["order"] == "F" else whole()
        return lambda: _jax_array(record, lambda jax: jax.numpy.asarray(whole()))

    own_shape = shape[: len(shape) - 1] if "key" in record else shape
    sharding = devices.sharding(_tuples(record["sharding"]), own_shape, name)
    if sharding is None:
        devices.notes["%s: it is on the first device here, with no sharding." % name] = None
        started = {(): stored.read()} if stored is not None else {}
        return lambda: _jax_array(record, lambda jax: jax.numpy.asarray(whole()))
    indices = {
        _hashable(index): index
        for index in sharding.addressable_devices_indices_map(shape).values()
    }
    started = {
        hashed: stored[index].read() if index else stored.read()
        for hashed, index in indices.items()
        if stored is not None
    }

    def part(index):
        if stored is None:
            return numpy.zeros(shape, dtype)[index]
        return started[_hashable(index)].result().astype(dtype, copy=False)

    return lambda: _jax_array(
        record, lambda jax: jax.make_array_from_callback(shape, sharding, part)
    )


def _jax_array(record, make):
    import jax

    wide = record["dtype"] in ("int64", "uint64", "float64", "complex128")
    if wide and not jax.config.read("jax_enable_x64"):
        with jax.enable_x64(True):
            array = make(jax)
    else:
        array = make(jax)
    if "key" in record:
        return jax.random.wrap_key_data(array, impl=record["key"])
    return _weak(array) if record["weak"] else array


def _weak(array):
    """An array whose dtype gives way to others, as that of ``jnp.asarray(1.0)`` does."""
    try:
        from jax._src.lax.lax import _convert_element_type

        return _convert_element_type(array, array.dtype, weak_type=True)
    except (ImportError, TypeError):  # another version of JAX: the public way makes scalars only
        import jax

        return array if array.ndim else jax.numpy.asarray(array.item())


def _open(store, key, record, shard_shape):
    import tensorstore

    spec = {
        "driver": "zarr3",
        "kvstore": {**store, "path": "%s%s/" % (store["path"], key)},
        # What is missing is not zero.
        "fill_missing_data_reads": False,
        "store_data_equal_to_fill_value": True,
    }
    if shard_shape is None:
        return tensorstore.open(spec, open=True).result()
    dtype = _stored(record["dtype"])
    spec["metadata"] = {
        "shape": record["shape"],
        "chunk_grid": {
            "name": "regular",
            "configuration": {"chunk_shape": chunk_shape(shard_shape, dtype.itemsize)},
        },
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]
        if dtype.itemsize > 1
        else [{"name": "bytes"}],
    }
    # Others write their parts of an array of several hosts at the same time.
    common = "hosts" in record
    opened = tensorstore.open(
        spec, create=True, open=common, delete_existing=not common, dtype=dtype.name
    )
    return done(opened, store["path"])


def chunk_shape(shard_shape, itemsize):
    """Shards in parts of at most `CHUNK_BYTES`, halved along their longest dimensions."""
    shape = [max(1, length) for length in shard_shape]
    while math.prod(shape) * itemsize > CHUNK_BYTES:
        longest = shape.index(max(shape))
        shape[longest] = (shape[longest] + 1) // 2
    return shape


def _numpy_dtype(name):
    import numpy

    try:
        return numpy.dtype(name)
    except TypeError:
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, name))


def _stored(name):
    """The dtype in storage: Zarr has no numbers of fewer than 8 bits, nor all of ml_dtypes."""
    import numpy

    if name in ("int4", "int2"):
        return numpy.dtype("int8")
    if name in ("uint4", "uint2"):
        return numpy.dtype("uint8")
    if name.startswith("float4") or name.startswith("float6") or name == "float8_e8m0fnu":
        return numpy.dtype("float32")
    return _numpy_dtype(name)


def _hashable(index):
    return tuple((part.start, part.stop, part.step) for part in index)


def _tuples(value):
    """What JSON has made lists of."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value

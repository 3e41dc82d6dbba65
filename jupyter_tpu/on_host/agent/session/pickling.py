"""Variables as pickles: one for each group of variables that share objects.

What is in a group stays one object: two names of one list are one list again. A group is also what
can be left out without the others, and what is not written again while nothing in it changes.
Arrays and devices are not in the pickles; they are named there, see `ArraySet` and `placement`.
"""

import collections
import enum
import functools
import hashlib
import io
import pickle
import sys
import types
import zlib

from . import classes, placement, rebuild
from .arrays import CannotKeep
from .time_limit import TookTooLong, time_limit

#: Objects of these types are never shared with another variable in a way that can be noticed.
_PLAIN = (
    str, bytes, int, float, complex, bool, type(None), type, tuple, frozenset, range, slice,
    types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.CodeType,
    property, staticmethod, classmethod, enum.Enum,
)  # fmt: skip
#: Built-in types whose objects can be changed; of other modules, any object can be.
_MUTABLE = (list, dict, set, bytearray, collections.deque, collections.OrderedDict)
#: Where JAX's functions have their public names, the better ones first.
_PUBLIC = ("jax.nn", "jax.numpy", "jax.lax", "jax.random", "jax.scipy.special", "jax")
_NAMESPACE = ("namespace",)
#: It does not know its dataset.
GRAIN_ITERATOR = (
    "an iterator of Grain: keep its get_state() in a variable, make it again, and use set_state"
)
#: What is small, and how many packs there are of it: at least so many, of about so many bytes each.
_SMALL_BYTES, _FEWEST_PACKS, _PACK_BYTES = 4 << 10, 8, 256 << 10
#: Types whose objects are rebuilt without running anything.
_DATA = frozenset({
    str, bytes, bytearray, int, float, complex, bool, type(None), tuple, frozenset, list, dict, set,
})  # fmt: skip
#: Whatever the own class of an object raises while this is pickled.
_RAISED = (Exception, SystemExit)


class PickledGroup:
    """Variables that share objects.

    names: in the order of the notebook. data: their pickle. arrays: the keys of those in it.
    modules: whose classes and functions are in it, without what is behind a dot. has_code: whether
    functions or classes of the notebook are in it, which only this version of Python can run.
    """

    def __init__(self, names, data, arrays, modules, has_code):
        self.names, self.data, self.arrays = names, data, arrays
        self.modules, self.has_code = modules, has_code
        self.digest = hashlib.sha256(data).hexdigest()


def dump(variables, namespace, array_set, seconds=0):
    """The groups of *variables*, and why others can't be kept: {name: reason}.

    namespace: the notebook's own dict, to which its functions refer. seconds: that one variable may
    take; 0: no limit.
    """
    reasons, roots, singles = {}, {}, {}
    owners: "dict[int, str]" = {}  # id of an object: the variable that had it first
    alive = []  # an id is of one object only while that exists
    for name, value in variables.items():
        array_set.begin_variable(name)
        try:
            with time_limit(seconds):
                singles[name] = pickler = _dump({name: value}, namespace, array_set)
        except _RAISED as error:
            reasons[name] = _reason(value, error)
            continue
        except TookTooLong:
            reasons[name] = "it takes longer than %d s: %%tpu session save waits for it" % seconds
            continue
        roots[name] = name
        alive.append(pickler.objects)
        for key in pickler.objects:
            _join(roots, owners.setdefault(key, name), name)
    members: "dict[str, list]" = {}
    for name in singles:
        members.setdefault(_root(roots, name), []).append(name)
    members = _packed(members, singles)
    groups = []
    for names in members.values():
        pickler = singles[names[0]]
        if len(names) > 1:
            try:
                pickler = _dump({name: variables[name] for name in names}, namespace, array_set)
            except _RAISED as error:  # not the first time, but now
                reasons.update((name, _reason(variables[name], error)) for name in names)
                continue
        groups.append(
            PickledGroup(
                names,
                pickler.file.getvalue(),
                sorted(pickler.arrays),
                pickler.modules,
                pickler.has_code,
            )
        )
    return groups, reasons


def _packed(members, singles):
    """The groups *members*, but those of one small and plain variable together: they can't fail,
    and to write thousands of files takes minutes. A variable stays in its pack.
    """
    sizes = {
        name: singles[name].file.tell()
        for name, names in members.items()
        if names == [name] and singles[name].is_plain
    }
    small = {name: size for name, size in sizes.items() if size <= _SMALL_BYTES}
    packs = max(_FEWEST_PACKS, 1 << (sum(small.values()) // _PACK_BYTES).bit_length())
    groups: "dict[object, list]" = {}
    for root, names in members.items():
        pack = zlib.crc32(root.encode(errors="replace")) % packs if root in small else root
        groups.setdefault(pack, []).extend(names)
    return groups


def load(data, namespace, arrays, taken, devices):
    """The variables of a group by name. Running code of whoever wrote *data* is its nature.

    arrays: {key: array}. taken: the keys that other groups have; NumPy arrays are copied then.
    devices: a `placement.Devices`.
    """
    return _Unpickler(io.BytesIO(data), namespace, arrays, taken, devices).load()


def _dump(value, namespace, array_set):
    pickler = _pickler_class()(namespace, array_set)
    pickler.dump(value)
    return pickler


@functools.lru_cache(maxsize=None)
def _pickler_class():
    """Made when it is needed: cloudpickle is the environment's."""
    import cloudpickle

    class SessionPickler(_Rules, cloudpickle.Pickler):
        """As `_Rules` say, and otherwise as cloudpickle."""

    return SessionPickler


class _Rules(pickle.Pickler):
    """How a session's pickles differ from others."""

    def __init__(self, namespace, array_set):
        self.file = io.BytesIO()
        super().__init__(self.file, 5)
        self.arrays, self.modules = set(), set()
        self.has_code = False
        self.is_plain = True
        self.objects = {}  # by id: what another variable may share
        self._numbers = {}  # of NumPy arrays by id: two with the same content stay two
        self._namespace = namespace
        self._array_set = array_set
        self._jax = sys.modules.get("jax")

    def persistent_id(self, value):
        self.is_plain = self.is_plain and type(value) in _DATA
        if isinstance(value, _PLAIN):
            self.has_code = self.has_code or isinstance(value, types.CodeType)
            if isinstance(value, (type, types.FunctionType, types.ModuleType)):
                module = getattr(value, "__module__", None) or getattr(value, "__name__", "")
                self.modules.add(str(module).partition(".")[0])
            return None
        if value is self._namespace:
            return _NAMESPACE
        key = self._array_set.key_of(value)
        if key is not None:
            self.arrays.add(key)
            if self._jax is not None and isinstance(value, self._jax.Array):
                return "array", key, None
            self.objects[id(value)] = value
            return "array", key, self._numbers.setdefault(id(value), len(self._numbers))
        if self._jax is not None:
            if isinstance(value, self._jax.core.Tracer):
                raise CannotKeep("a tracer: it has no value outside of its function")
            described = placement.describe(self._jax, value)
            if described is not None:
                return described
        if isinstance(value, io.IOBase) and not isinstance(value, (io.BytesIO, io.StringIO)):
            raise CannotKeep("an open file")
        if _is_widget(value):
            raise CannotKeep("a widget: run its cell again")
        if isinstance(value, types.CellType):
            if not _holds_class(value):  # as those of methods with super() do
                self.objects[id(value)] = value
        elif isinstance(value, _MUTABLE) or type(value).__module__ != "builtins":
            self.objects[id(value)] = value
        return None

    def reducer_override(self, value):
        kind = type(value)
        if kind is types.CellType:
            try:
                contents = (value.cell_contents,)
            except ValueError:  # empty
                return rebuild.cell, ()
            return rebuild.cell, (), contents, None, None, rebuild.set_cell
        if kind is types.FunctionType and value.__globals__ is self._namespace:
            return self._function(value)
        if _is_of_grain(value):
            if kind.__name__ != "DataLoaderIterator":
                raise CannotKeep(GRAIN_ITERATOR)
            return rebuild.loader_iterator, (value._data_loader, value.get_state())
        if isinstance(value, type):
            return classes.reduced(value, super().reducer_override(value))
        if callable(value) and not isinstance(value, (type, types.FunctionType)):
            name = _public_name(value)
            if name is not None:
                return rebuild.by_name, name
        return super().reducer_override(value)

    def _function(self, value):
        state = {
            "__defaults__": value.__defaults__,
            "__kwdefaults__": value.__kwdefaults__,
            "__annotations__": value.__annotations__,
            "__qualname__": value.__qualname__,
            "__module__": value.__module__,
            "__doc__": value.__doc__,
            **value.__dict__,
        }
        arguments = (value.__code__, self._namespace, value.__name__, value.__closure__)
        return rebuild.function, arguments, state, None, None, rebuild.set_function


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, namespace, arrays, taken, devices):
        super().__init__(file)
        self._namespace, self._arrays, self._devices = namespace, arrays, devices
        self._taken = taken
        self._own = {}

    def persistent_load(self, pid):
        if pid == _NAMESPACE:
            return self._namespace
        if pid[0] == "array":
            _, key, number = pid
            if pid not in self._own:
                array = self._arrays[key]
                is_numpy = number is not None
                self._own[pid] = array.copy() if is_numpy and key in self._taken else array
                self._taken.add(key)
            return self._own[pid]
        return self._devices.rebuild(pid)


def _public_name(value):
    """A library's function that is an object, by module and name: JAX's `relu`, for example."""
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return None
    inner = module.startswith("jax._src")
    for candidate in (*(_PUBLIC if inner else ()), module):
        found = sys.modules.get(candidate)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is value:
            return candidate, name
    return None


def _holds_class(cell):
    try:
        return isinstance(cell.cell_contents, type)
    except ValueError:  # empty
        return False


def _is_of_grain(value):
    """An iterator of Grain, which knows where it is."""
    return type(value).__module__.startswith("grain.") and hasattr(value, "set_state")


def _is_widget(value):
    widgets = sys.modules.get("ipywidgets")
    return widgets is not None and isinstance(value, widgets.Widget)


def _reason(value, error):
    if isinstance(error, CannotKeep):
        return str(error)
    if isinstance(value, types.GeneratorType):
        return "a generator: run its cell again"
    if isinstance(error, RecursionError) or isinstance(error.__context__, RecursionError):
        return "nested too deeply"
    kind = type(value)
    text = " ".join(str(error).split())[:200]
    return "of the class %s, which can't be kept: %s" % (kind.__qualname__, text)


def _root(roots, name):
    while roots[name] != name:
        roots[name] = name = roots[roots[name]]
    return name


def _join(roots, one, other):
    one, other = _root(roots, one), _root(roots, other)
    if one != other:
        roots[other] = one

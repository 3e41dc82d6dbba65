"""``%tpu memory`` in a kernel on a host: which variables hold the memory of JAX's devices.

Loaded by `ipython_kernel` in the environment's own Python. It never imports or starts JAX. While a
cell runs it works in a subshell, which is another thread of the kernel.
"""

import collections.abc
import contextlib
import functools
import gc
import inspect
import re
import sys
import threading
import traceback
import types

FREE = "%tpu memory --free"
#: Arrays that have a line, objects that are looked into, and how deep.
MOST_LINES, MOST_OBJECTS, MOST_LEVELS = 40, 200_000, 12
#: IPython's own names of outputs and inputs.
_OUTPUT = re.compile(r"_{1,3}|_\d+|_oh|Out")
_INPUT = re.compile(r"_i{1,3}|_i\d*|_ih|_dh|In")
#: Not looked into: they hold no arrays, or everything.
_CLOSED = (str, bytes, int, float, complex, bool, type(None), type, types.ModuleType)
#: Packages whose objects are not looked into: they have ways to all of the user's.
_KERNEL = ("IPython", "ipykernel", "traitlets", "zmq", "tornado", "asyncio", "logging")
#: What keeps an array, from what the user wants to know first to last.
NAMED, RUNNING, OUTPUT, ERROR = "named", "running", "output", "error"


def command(shell, words):
    """What `%tpu memory` prints in IPython's *shell*; None for a misuse."""
    if not set(words) <= {"--free"}:
        return None
    freed = [free(shell)] if words else []
    return "\n".join([*freed, report(shell)])


def report(shell):
    """The table, as a text."""
    jax = _started_jax()
    if jax is None:
        return "JAX has no devices in this kernel yet: it starts when a cell uses it."
    rows = []
    sums: "dict[int, int]" = {}  # bytes by device
    kept: "dict[str, int]" = {}  # and by what keeps them
    names = names_of(shell, jax)
    for array in jax.live_arrays():
        sizes = sizes_of(array)
        if not sizes:
            continue
        kind, name = min(names.get(id(array), ()), key=_rank, default=("", ""))
        for device, size in sizes.items():
            sums[device] = sums.get(device, 0) + size
        kept[kind] = kept.get(kind, 0) + sum(sizes.values())
        rows.append((max(sizes.values()), name or "(no name)", array, sizes))
    rows.sort(key=lambda row: (-row[0], row[1]))
    lines = [("NAME", "SHAPE", "DTYPE", "PER DEVICE", "DEVICES", "SHARDING")]
    lines += [_line(*row) for row in rows[:MOST_LINES]]
    text = _table(lines) if rows else "No array is on the devices."
    more = rows[MOST_LINES:]
    if more:
        size = _size(sum(sum(row[3].values()) for row in more))
        text += "\n… and %d smaller ones: %s" % (len(more), size)
    return "\n".join([text, "", *_totals(jax, sums), *_remarks(kept)])


def free(shell):
    """Forgets outputs and the last error; says what that has freed."""
    jax = _started_jax()
    before = _total(jax)
    for trace in last_traces(shell):
        traceback.clear_frames(trace)
    for error in last_errors():
        error.__traceback__ = None
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        with contextlib.suppress(AttributeError):
            delattr(sys, name)
    shell.InteractiveTB.tb = None
    with contextlib.suppress(ValueError):  # outputs are not kept
        shell.displayhook.flush()
    gc.collect()
    freed = before - _total(jax)
    return "Cleared the outputs and the last error. Freed %s." % _size(freed)


def names_of(shell, jax):
    """{id of an array: [(kind, name), …]} for all that can be found by a name."""
    names: "dict[int, list]" = {}
    walker = Walker(
        jax, lambda kind, name, array: names.setdefault(id(array), []).append((kind, name))
    )
    for name, value in list(shell.user_ns.items()):
        if not _OUTPUT.fullmatch(name) and not _INPUT.fullmatch(name):
            walker.walk(NAMED, name, value)
    own = threading.get_ident()
    for thread, top in sys._current_frames().items():
        frame: "types.FrameType | None" = top
        while frame is not None and thread != own:
            walker.walk_frame(RUNNING, frame)
            frame = frame.f_back
    for number, value in list(shell.user_ns.get("_oh", {}).items()):
        walker.walk(OUTPUT, "Out[%d]" % number, value)
    for name in ("_", "__", "___"):
        walker.walk(OUTPUT, name, shell.user_ns.get(name))
    for trace in last_traces(shell):
        walker.walk_trace(ERROR, trace)
    return names


def last_traces(shell):
    """The tracebacks of the last error, and of those before it."""
    traces = [getattr(sys, "last_traceback", None), getattr(shell.InteractiveTB, "tb", None)]
    traces += [error.__traceback__ for error in last_errors()]
    return [trace for trace in traces if isinstance(trace, types.TracebackType)]


def last_errors():
    """The last error, and those that it was raised from."""
    error, errors = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None), []
    while error is not None and error not in errors:
        errors.append(error)
        error = error.__cause__ or error.__context__
    return errors


class Walker:
    """Finds arrays in values; calls on_array(kind, name, array)."""

    def __init__(self, jax, on_array):
        self._array = jax.Array
        self._tracer = getattr(jax.core, "Tracer", type(None))
        self._on_array = on_array
        self._seen = {}  # by kind: what was looked into
        self._left = MOST_OBJECTS

    def walk(self, kind, name, value, depth=0):
        if isinstance(value, (self._tracer, *_CLOSED)):
            return
        if isinstance(value, self._array):
            self._on_array(kind, name, value)
            return
        seen = self._seen.setdefault(kind, set())
        if id(value) in seen or depth > MOST_LEVELS or self._left <= 0:
            return
        if str(type(value).__module__).partition(".")[0] in _KERNEL:
            return
        seen.add(id(value))
        self._left -= 1
        for part, inner in self._parts(kind, name, value):
            self.walk(kind, name + part, inner, depth + 1)

    def _parts(self, kind, name, value):
        """What is in a value, with what has to be written after the value's name."""
        if isinstance(value, collections.abc.Mapping):
            with contextlib.suppress(Exception):  # another thread changes it, or it computes
                return [("[%r]" % (key,), inner) for key, inner in list(value.items())]
            return []
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return [(".%s" % field, getattr(value, field)) for field in value._fields]
        if isinstance(value, (list, tuple, collections.deque)):
            return [("[%d]" % number, inner) for number, inner in enumerate(list(value))]
        if isinstance(value, (set, frozenset)):
            return [(" (a set)", inner) for inner in list(value)]
        if isinstance(value, functools.partial):
            return [(".func", value.func), (".args", value.args), (".keywords", value.keywords)]
        if isinstance(value, types.FunctionType):
            cells = zip(value.__code__.co_freevars, value.__closure__ or ())
            return [(" (%s in it)" % inner, _content(cell)) for inner, cell in cells]
        if isinstance(value, types.MethodType):
            return [(".__self__", value.__self__)]
        if isinstance(value, BaseException):
            self.walk_trace(kind, value.__traceback__, name)
        with contextlib.suppress(Exception):
            return [(".%s" % field, inner) for field, inner in list(vars(value).items())]
        return []

    def walk_trace(self, kind, trace, error=""):
        """The functions that have failed; *error*: the variable that has the error."""
        while trace is not None:
            self.walk_frame(kind, trace.tb_frame, error)
            trace = trace.tb_next

    def walk_frame(self, kind, frame, error=""):
        """The variables of a function that runs or has failed."""
        if not frame.f_code.co_flags & inspect.CO_NEWLOCALS:
            return  # of a module or a cell: its variables are the notebook's
        for name, value in _variables(frame):
            if not _is_namespace(value, frame):
                where = "%s in %s()" % (name, frame.f_code.co_name)
                self.walk(kind, "%s (%s)" % (error, where) if error else where, value)


def sizes_of(array):
    """{device: bytes} of an array's parts here; {} for one that was deleted, or that is in the
    memory of the host.
    """
    try:
        if array.sharding.memory_kind == "pinned_host":
            return {}
        small = re.match(r"(?:u?int|float)([24])(?:_|$)", array.dtype.name)  # packed on a TPU
        bits = int(small.group(1)) if small else 8 * array.dtype.itemsize
        for length in array.sharding.shard_shape(array.shape):
            bits *= length
        size = -(-bits // 8)
        return dict.fromkeys((device.id for device in array.sharding.addressable_devices), size)
    except Exception:  # deleted meanwhile, or a kind without a size
        return {}


def _started_jax():
    started = getattr(sys.modules.get("jax._src.xla_bridge"), "_backends", None)
    return sys.modules.get("jax") if started else None


def _content(cell):
    try:
        return cell.cell_contents
    except ValueError:  # empty
        return None


def _variables(frame):
    """A frame's variables. Before Python 3.13 it keeps what was read, and so all values: that is
    emptied again, unless a debugger uses it.
    """
    variables = frame.f_locals
    try:
        return list(variables.items())
    except RuntimeError:  # it continues meanwhile
        return []
    finally:
        if sys.version_info < (3, 13) and frame.f_trace is None:
            variables.clear()


def _is_namespace(value, frame):
    """The notebook's variables, which IPython's own functions have in theirs."""
    return value is frame.f_globals or (isinstance(value, dict) and "get_ipython" in value)


def _rank(label):
    """The best name of an array: that of the user's variable, and a short one."""
    kind, name = label
    return (NAMED, RUNNING, OUTPUT, ERROR).index(kind), name.startswith("_"), len(name), name


def _line(size, name, array, sizes):
    shape = "×".join(map(str, array.shape)) or "scalar"
    spec = getattr(array.sharding, "spec", None)
    sharding = "" if spec is None else str(spec).replace("PartitionSpec", "P")
    return name, shape, str(array.dtype), _size(size), _numbers(sizes), sharding


def _totals(jax, sums):
    """What the arrays take, and what the devices report, of devices with the same figures."""
    groups: "dict[str, list]" = {}
    for device in jax.local_devices():
        arrays = sums.get(device.id, 0)
        stats = (device.memory_stats() if hasattr(device, "memory_stats") else None) or {}
        used, limit, peak = (
            stats.get(name) for name in ("bytes_in_use", "bytes_limit", "peak_bytes_in_use")
        )
        text = "arrays %s" % _size(arrays)
        if used is not None and limit:
            text += "; in use %s of %s" % (_size(used), _size(limit))
        if peak:
            text += ", at most %s so far" % _size(peak)
        groups.setdefault(text, []).append(device.id)
    return [
        "Device%s %s: %s" % ("s" if len(ids) > 1 else "", _numbers(ids), text)
        for text, ids in groups.items()
    ]


def _remarks(kept):
    remarks = []
    only = [
        "%s %s" % (what, _size(kept[kind]))
        for kind, what in ((OUTPUT, "Out[] holds"), (ERROR, "the last error holds"))
        if kept.get(kind)
    ]
    if only:
        remarks.append("Only %s. This line frees it: %s" % (" and only ".join(only), FREE))
    if kept.get(""):
        remarks.append(
            "%s have no name here: a library or a computation holds them." % _size(kept[""])
        )
    return remarks


def _total(jax):
    arrays = jax.live_arrays() if jax is not None else ()
    return sum(sum(sizes_of(array).values()) for array in arrays)


def _numbers(ids):
    """ "0-3, 6"."""
    runs: "list[list[int]]" = []
    for number in sorted(ids):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else "%d-%d" % (a, b) for a, b in runs)


def _size(count):
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while abs(count) >= 1024 and len(units) > 1:
        count, units = count / 1024.0, units[1:]
    return "%d %s" % (count, units[0]) if units[0] == "B" else "%.1f %s" % (count, units[0])


def _table(lines):
    widths = [max(map(len, column)) for column in zip(*lines)]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(line, widths)).rstrip() for line in lines
    )

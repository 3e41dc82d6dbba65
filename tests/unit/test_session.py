"""`%tpu session`: what is saved of a kernel, and what another kernel gets of it."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import until

from jupyter_tpu.on_host.agent.session import command, pickling, placement
from jupyter_tpu.on_host.agent.session.arrays import ArraySet, chunk_shape
from jupyter_tpu.on_host.agent.session.hosts import OneHost
from jupyter_tpu.on_host.agent.session.save import SessionReport
from jupyter_tpu.on_host.agent.session.session import KernelSession
from jupyter_tpu.on_host.agent.session.storage import SessionError, Storage, signature_of

KEY = b"k" * 32
#: A kernel without a kernel: IPython with the cells of a notebook, and %tpu session.
PROGRAM = """
import json, sys
from IPython.core.interactiveshell import InteractiveShell
from jupyter_tpu.on_host.agent.keeper.ipython_kernel import load_magic, load_session

shell = InteractiveShell.instance()
load_magic(shell, {"session": load_session(shell)})
for cell in json.load(sys.stdin):
    if not shell.run_cell(cell, store_history=True).success:
        sys.exit(1)
"""


def notebook(home: Path, devices: int, *cells: str) -> str:
    """What the cells of a new kernel print, on so many devices."""
    environment = {
        **os.environ,
        "HOME": str(home),
        "IPYTHONDIR": str(home / "ipython"),
        "JAX_PLATFORMS": "cpu",
        "JPY_SESSION_NAME": "work/my notebook.ipynb",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        input=json.dumps(cells), env=environment, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


TRAINING = """
import dataclasses, threading
import flax.nnx as nnx, jax, jax.numpy as jnp, numpy as np, optax
from jax.sharding import NamedSharding, PartitionSpec as P, SingleDeviceSharding

mesh = jax.make_mesh((4, 2), ("data", "model"))
weights = jax.device_put(np.arange(64.0).reshape(8, 8), NamedSharding(mesh, P("data", "model")))
same = weights
odd = jax.device_put(np.ones((4, 6)), NamedSharding(mesh, P("data", "model")))
second = jax.device_put(jnp.ones(3), jax.devices()[1])
hosts = jax.device_put(
    jnp.ones(4), SingleDeviceSharding(jax.devices()[0], memory_kind="pinned_host"))
free = jnp.arange(5, dtype=jnp.bfloat16)
weak = jnp.full((3,), 2.0)
nibbles, empty = jnp.array([1, 2, 3], jnp.int4), jnp.zeros((0, 3))
keys = jax.random.split(jax.random.key(3, impl="rbg"), 4)
big, twin = np.arange(90_000), np.arange(90_000)
columns = np.asfortranarray(big.reshape(300, 300))
lists = [big, weights]

def count(x):
    global counter
    counter += 1
    return x + counter

def make():
    number = 0
    def up():
        nonlocal number
        number += 1
        return number
    return up, lambda: number

counter, (up, look) = 0, make()
up()

class Net(nnx.Module):
    def __init__(self, rngs):
        super().__init__()
        self.layer = nnx.Linear(4, 4, rngs=rngs)

    def __call__(self, x):
        return nnx.relu(self.layer(x))

net = Net(nnx.Rngs(0))
state = optax.adam(1e-3).init(nnx.state(net))
step = jax.jit(lambda x: x * counter)

@dataclasses.dataclass
class Layer:
    scale: jax.Array
    activation: object = jax.nn.relu

layer = Layer(weights)

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Point:
    x: jax.Array
    name: str = dataclasses.field(metadata={"static": True}, default="p")

@jax.tree_util.register_pytree_node_class
class Pair:
    def __init__(self, *parts):
        self.parts = parts
    def tree_flatten(self):
        return self.parts, None
    @classmethod
    def tree_unflatten(cls, _, parts):
        return cls(*parts)

point, pair = Point(jnp.ones(2)), Pair(1, 2)
before = net(jnp.ones((1, 4)))
lock, rows = threading.Lock(), (row for row in range(3))
text = open("/dev/null")
40 + 2
"""
CHECK = """
assert same is weights and lists[1] is weights and lists[0] is big and twin is not big
assert np.array_equal(twin, big) and columns.flags.f_contiguous and columns[1, 0] == 300
assert np.array_equal(weights, np.arange(64.0).reshape(8, 8)), weights
assert second.devices() == {jax.devices()[1]} and hosts.sharding.memory_kind == "pinned_host"
assert not free.committed and free.dtype == jnp.bfloat16 and free[4] == 4
assert weak.weak_type and (weak * free[:3]).dtype == jnp.bfloat16
assert nibbles.dtype == jnp.int4 and nibbles.tolist() == [1, 2, 3] and empty.shape == (0, 3)
assert keys.shape == (4,) and str(jax.random.key_impl(keys)) == "rbg"
counter = 10
assert count(1) == 12 and counter == 11 and step(2.0) == 22
assert up() == 2 == look()
assert type(net) is Net and np.array_equal(net(jnp.ones((1, 4))), before)
assert layer.scale is weights and layer.activation is jax.nn.relu and type(layer) is Layer
assert len(jax.tree.leaves((point, pair))) == 3 and type(jax.tree.map(lambda x: x, pair)) is Pair
assert jax.jit(lambda p: p)(point).name == "p"
assert optax.tree.get(state, "count") == 0 and Out[1] == 42
assert (weights + jax.device_put(np.ones((8, 8)), weights.sharding)).sharding == weights.sharding
print(dict(weights.sharding.mesh.shape), tuple(odd.sharding.spec), mesh is weights.sharding.mesh)
"""


def test_variables_are_the_same_on_another_number_of_devices(tmp_path):
    """As they were: shared objects, closures, dtypes, placement, and what can't be kept by name."""
    saved = notebook(tmp_path, 8, TRAINING, "%tpu session save")
    assert "Saved 42 variables as my notebook in" in saved
    missing = ("rows (a generator: run its cell again)", "text (an open file)")
    assert all(f"Not saved: {line}" in saved for line in missing)
    assert "Not saved: lock (of the class lock, which can't be kept:" in saved
    for devices, data, odd in ((8, 4, "'data'"), (4, 2, "'data'"), (16, 8, "None")):
        restored = notebook(tmp_path, devices, "%tpu session restore", CHECK)
        assert "Restored 42 of 45 variables" in restored
        assert f"{{'data': {data}, 'model': 2}} ({odd}, 'model') True" in restored
        note = "odd: its dimension of 4 is not split over data any more"
        assert (note in restored) == (devices > 8)
    offered = notebook(tmp_path, 1, "1", "2")
    assert offered.count("To put them into this kernel: %tpu session restore") == 1


@given(
    st.lists(st.integers(1, 8), min_size=1, max_size=3),
    st.integers(1, 64),
    st.integers(1, 64),
)
def test_a_mesh_of_all_devices_is_one_of_all_devices_elsewhere(sizes, more, devices):
    size = int(np.prod(sizes))
    now = placement.resized(tuple(sizes), size, devices)
    assert (len(now), int(np.prod(now))) == (len(sizes), devices)
    part = placement.resized(tuple(sizes), size + more, devices)
    assert part == tuple(sizes) if devices >= size else int(np.prod(part)) <= devices


def test_large_shards_are_written_in_several_parts():
    assert chunk_shape([4096, 8192], 4) == [4096, 4096]
    assert chunk_shape([0, 3], 2) == [1, 3]


class Kernel:
    """A namespace that is saved and restored."""

    def __init__(self, folder: Path, key: bytes = KEY, **variables: Any) -> None:
        history = SimpleNamespace(input_hist_parsed=[""], input_hist_raw=[""], output_hist={})
        self.namespace = variables
        self.shell = SimpleNamespace(
            user_ns=variables, user_ns_hidden={}, history_manager=history, execution_count=1
        )
        self.storage = Storage(str(folder), key)
        self.session = KernelSession(self.shell, {"tpu": "my-tpu"})

    def save(self, name: str = "s", **options: bool) -> SessionReport:
        return self.session.save(self.storage, name, **options)

    def restore(self, name: str = "s", **options: bool) -> SessionReport:
        return self.session.restore(self.storage, name, **options)


def files(folder: Path) -> int:
    return sum(path.is_file() for path in folder.rglob("*"))


def test_only_what_has_changed_is_written_again(tmp_path):
    arrays = {f"x{number}": jnp.full(50_000, number) for number in range(5)}
    kernel = Kernel(tmp_path, **arrays, big=np.zeros(50_000), rate=0.1)
    moved: list[tuple[int, int]] = []
    kernel.session.moved = lambda *bytes_: moved.append(bytes_)
    first = kernel.save()
    assert first.new == first.size > 6 * 200_000
    assert moved[0][0] < moved[-1][0] == moved[-1][1] == 5 * 200_000 + 400_000
    assert kernel.save().new == 0
    kernel.namespace["x1"] = kernel.namespace["x1"] + 1
    assert 200_000 <= kernel.save().new < 201_000
    kernel.namespace["big"][7] = 1
    assert 400_000 <= kernel.save().new < 401_000
    before = files(tmp_path)
    again = Kernel(tmp_path)
    again.session.moved = kernel.session.moved
    moved.clear()
    assert again.restore().names == [*arrays, "big", "rate"]
    assert again.namespace["big"][7] == 1
    assert moved[-1] == (1_400_000, 1_400_000)
    assert again.save().new == 0  # what was restored is there
    assert files(tmp_path) == before  # and nothing of earlier saves
    del kernel.namespace["x2"], kernel.namespace["big"]
    kernel.storage.forget("s")
    kernel.save()
    kernel.storage.forget("s")
    assert files(tmp_path) == 0


class Killed(BaseException):
    """The process ends here."""


@given(st.integers(0, 40))
def test_a_session_is_one_that_existed_whenever_a_save_ends(tmp_path_factory, step):
    folder = tmp_path_factory.mktemp("session")
    kernel = Kernel(folder, a=np.zeros(5000), b=np.zeros(5000), c=[0], d={0})
    kernel.save()
    kernel.namespace.update(a=np.ones(5000), b=np.ones(5000), c=[1], d={1})
    left = step

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                raise Killed
            return function(*arguments, **options)

        return call

    store = kernel.storage._store
    kernel.storage._store = SimpleNamespace(
        **{
            name: counted(getattr(store, name))
            for name in ("read", "write", "list", "delete_range")
        }
    )
    write = kernel.session.arrays.write
    kernel.session.arrays.write = counted(write)
    try:
        kernel.save()
    except Killed:
        assert left < 0
    other = Kernel(folder)
    report = other.restore()
    values = {int(np.ravel(list(other.namespace[name]))[0]) for name in "abcd"}
    assert (len(values), report.reasons) == (1, {})
    other.save()
    assert other.save().new == 0


STRANGE = """
class Raises:
    def __reduce__(self):
        raise ValueError("no")

class Exits:
    def __reduce__(self):
        raise SystemExit(3)

class OnlyOnce:
    tries = 0
    def __reduce__(self):
        OnlyOnce.tries += 1
        if OnlyOnce.tries > 1:
            raise ValueError("a second time")
        return int, ()

raises, exits, both = Raises(), Exits(), [1]
once, deep, deeper = [OnlyOnce(), both], [], []
for _ in range(100):
    deep = [deep]
for _ in range(100_000):
    deeper = [deeper]
everything = globals()
"""


def test_objects_that_fail_in_their_own_ways_are_named_and_the_rest_is_saved(tmp_path):
    shown = notebook(tmp_path, 1, STRANGE, "%tpu session save")
    for reason in (
        "raises (of the class Raises, which can't be kept: no)",
        "exits (of the class Exits, which can't be kept: 3)",
        "once (of the class list, which can't be kept: a second time)",
        "both (of the class list, which can't be kept: a second time)",
        "deeper (nested too deeply)",
    ):
        assert f"Not saved: {reason}" in shown
    shown = notebook(
        tmp_path, 1, "%tpu session restore", "assert str(deep) == '[' * 101 + ']' * 101",
        "assert everything is globals()",
    )  # fmt: skip
    assert "Restored 5 of 10 variables" in shown


def test_thousands_of_small_variables_are_a_few_files_of_which_a_change_writes_one(tmp_path):
    many = "for i in range(3000): globals()[f'v{i}'] = i if i % 2 else [i, {'a': (None, b'x')}]"
    notebook(tmp_path, 1, many, "%tpu session save")
    (values,) = (tmp_path / ".jupyter-tpu" / "sessions").glob("data/*/values")
    first = set(values.iterdir())
    assert len(first) == 8
    notebook(
        tmp_path, 1, "%tpu session restore", "assert v5 == 5 and v4[0] == 4 and v2998[1]['a']",
        "v7 = 'changed'", "%tpu session save",
    )  # fmt: skip
    assert len(first & set(values.iterdir())) == 7


def test_what_takes_too_long_is_given_up_and_a_timer_of_the_users_own_goes_on():
    rings = []

    class Slow:
        def __reduce__(self) -> Any:
            try:
                while True:
                    time.sleep(0.01)
            except Exception:
                return int, ()

    before = signal.signal(signal.SIGALRM, lambda *_: rings.append(1))
    signal.setitimer(signal.ITIMER_REAL, 1.0)
    try:
        groups, reasons = pickling.dump(
            {"slow": Slow(), "x": 1}, {}, ArraySet(OneHost()), seconds=0.1
        )
        assert [group.names for group in groups] == [["x"]]
        assert list(reasons) == ["slow"]
        assert "takes longer" in reasons["slow"]
        until(lambda: rings)
    finally:
        signal.signal(signal.SIGALRM, before)


def test_a_session_is_read_only_if_this_user_has_saved_it(tmp_path):
    Kernel(tmp_path, x=1).save()
    with pytest.raises(SessionError, match="signed with another key"):
        Kernel(tmp_path, key=b"other").restore()
    path = tmp_path / "manifests" / "s.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps({**content, "manifest": content["manifest"].replace("x", "y")}))
    with pytest.raises(SessionError, match="signed with another key"):
        Kernel(tmp_path).restore()
    path.write_text("{")
    with pytest.raises(SessionError, match="damaged"):
        Kernel(tmp_path).restore()
    with pytest.raises(SessionError, match=r"There is no session t in .* There are: s"):
        Kernel(tmp_path).restore("t")


def test_a_newer_format_and_damaged_values_are_not_read(tmp_path):
    kernel = Kernel(tmp_path, x=1)
    kernel.save()
    (values,) = (tmp_path / "data" / "s" / "values").iterdir()
    values.write_bytes(b"other")
    other = Kernel(tmp_path)
    assert "missing or damaged" in other.restore().reasons["x"]
    manifest, _ = kernel.storage.manifest("s")
    body = json.dumps({**manifest, "format": 99})
    signed = {"manifest": body, "signature": signature_of("s", body, KEY)}
    (tmp_path / "manifests" / "s.json").write_text(json.dumps(signed))
    with pytest.raises(SessionError, match="newer version of jupyter-tpu"):
        other.restore()


def test_variables_are_not_replaced_unasked_and_one_failure_is_one_variable(tmp_path):
    class Unreadable:
        def __reduce__(self) -> Any:
            return exec, ("raise ModuleNotFoundError('no', name='some_package.part')",)

    Kernel(tmp_path, x=1, y=[2], z=Unreadable()).save()
    other = Kernel(tmp_path, x="mine")
    with pytest.raises(SessionError, match=r"variables of the same names: x.*--overwrite"):
        other.restore()
    assert other.namespace == {"x": "mine"}
    report = other.restore(overwrite=True)
    assert other.namespace == {"x": 1, "y": [2]}
    assert report.reasons == {"z": "it needs the package some_package"}
    assert "restore again: %pip install some_package" in report.notes[0]
    with pytest.raises(SessionError, match="choose another NAME"):
        other.save()  # z is still in the session


def test_a_package_that_is_missing_is_named_as_it_was_installed(tmp_path):
    from packaging.version import Version

    kernel = Kernel(tmp_path, version=Version("1.2"), array=jnp.ones(2))
    kernel.save()
    manifest, generation = kernel.storage.manifest("s")
    package = manifest["packages"]["packaging"]
    assert package.startswith("packaging==")
    kernel.storage.write_manifest("s", {**manifest, "jax": "0.0.1"}, generation)
    other = Kernel(tmp_path)
    hidden = {name: sys.modules.pop(name) for name in list(sys.modules) if "packaging" in name}
    sys.meta_path.insert(0, Missing("packaging"))
    try:
        report = other.restore()
    finally:
        del sys.meta_path[0]
        sys.modules.update(hidden)
    assert report.reasons == {"version": f"it needs the package {package}"}
    assert f"Install them, and restore again: %pip install {package}" in report.notes[1]
    assert report.notes[0].startswith("The session is of JAX 0.0.1, and this is JAX ")


class Missing:
    """A package that is not installed."""

    def __init__(self, package: str) -> None:
        self._package = package

    def find_spec(self, name: str, *_: Any) -> None:
        if name.partition(".")[0] == self._package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def test_code_of_another_python_is_named_and_the_rest_comes_back(tmp_path):
    kernel = Kernel(tmp_path, x=1)
    exec("def double(x): return 2 * x", kernel.namespace)
    del kernel.namespace["__builtins__"]
    kernel.save()
    manifest, generation = kernel.storage.manifest("s")
    kernel.storage.write_manifest("s", {**manifest, "python": [3, 8]}, generation)
    other = Kernel(tmp_path)
    assert other.restore().reasons == {
        "double": "it contains code of Python 3.8; run its cell again"
    }
    assert other.namespace == {"x": 1}


def test_a_new_kernel_does_not_replace_what_it_has_not_restored(tmp_path):
    Kernel(tmp_path, x=1, y=2).save()
    new = Kernel(tmp_path, x=3)
    with pytest.raises(SessionError, match=r"with 2 variables that were saved at .*--overwrite"):
        new.save()
    new.save("t")
    new.save(overwrite=True)
    new.save()
    other = Kernel(tmp_path)
    assert other.restore().names == ["x"]
    other.namespace["x"] = 4
    other.save()
    with pytest.raises(SessionError, match="Restore it first"):
        new.save()


def test_any_name_is_a_session_of_its_own(tmp_path):
    names = (".", "..", "../s", "manifests", "data", "a/b", "a%2Fb")
    kernel = Kernel(tmp_path / "in", x=1)
    for name in names:
        kernel.save(name)
    assert kernel.storage.list() == sorted(names)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    for number, name in enumerate(names, 1):
        assert kernel.storage.forget(name)
        assert len(kernel.storage.list()) == len(names) - number
    assert files(tmp_path) == 0


def test_a_save_does_not_start_jax(tmp_path):
    cells = "import jax", "%tpu session save", "from jax._src import xla_bridge as bridge"
    assert "0 backends" in notebook(tmp_path, 1, *cells, "print(len(bridge._backends), 'backends')")


def test_of_two_kernels_that_save_the_same_session_one_is_told(tmp_path):
    one, other = Kernel(tmp_path, x=1), Kernel(tmp_path, x=2)
    save = one.session.begin(one.storage, "s")
    written = threading.Event()
    write = one.storage.write_manifest

    def late(*arguments: Any) -> None:
        other.save()
        written.set()
        write(*arguments)

    one.storage.write_manifest = late
    with pytest.raises(SessionError, match="Another kernel saves the session s"):
        save.finish()
    third = Kernel(tmp_path)
    third.restore()
    assert (written.is_set(), third.namespace) == (True, {"x": 2})


def test_an_array_that_is_donated_during_a_save_is_saved_as_it_is_then(tmp_path):
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    kernel = Kernel(tmp_path, x=jnp.zeros(3), gone=jnp.zeros(4))
    save = kernel.session.begin(kernel.storage, "s")
    kernel.namespace["x"] = step(kernel.namespace["x"])
    kernel.namespace["gone"].delete()
    assert save.finish().reasons == {"gone": "its memory was donated or deleted"}
    other = Kernel(tmp_path)
    other.restore()
    assert other.namespace["x"].tolist() == [1, 1, 1]


def test_the_command_says_what_it_can_do_and_finds_a_misuse(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JPY_SESSION_NAME", "a/b.ipynb")
    kernel = Kernel(tmp_path / "unused", x=1, y=2)
    session = command.SessionCommand(kernel.shell)
    for misuse in (
        "",
        "save a b",
        "save --in",
        "forget",
        "auto soon",
        "forget x --overwrite",
        "list x",
    ):
        assert session(misuse.split()) == command.USAGE, misuse
    assert session(["list"]) == f"There is no session in {tmp_path}/.jupyter-tpu/sessions."
    assert session(["save"]).startswith("Saved 2 variables as b in ")
    assert session(["list"]).splitlines()[1].split()[0] == "b"
    assert (
        session(["save", "--in", "s3://x"]) == "s3://x is neither a folder nor gs://BUCKET/FOLDER."
    )
    assert session(["forget", "c"]).startswith("There is no session c in ")
    assert session(["forget", "b"]).startswith("Deleted the session b from ")
    assert (tmp_path / ".jupyter-tpu" / "session.key").stat().st_mode & 0o777 == 0o600

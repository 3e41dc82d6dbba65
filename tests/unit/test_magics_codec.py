"""Values as structure and raw buffers, there and back, and what must not be read."""

import contextlib
import json
import sys
import types
from collections import namedtuple
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pandas
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_tpu.on_host.variables import codec

Point = namedtuple("Point", "x y")


def sent(value: Any, *, pickled: bool = False, **reading: Any) -> Any:
    """*value* after a transfer."""
    header, buffers = codec.encode({"v": value}, pickled=pickled)
    options = {"unpickle": pickled, "import_jax": True, **reading}
    return codec.decode(json.loads(header), list(map(bytearray, buffers)), **options)["v"]


plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text() | st.integers() | st.tuples(st.integers()), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(plain)
def test_built_in_values_come_back_equal_and_of_their_class(value):
    back = sent(value)
    assert back == value
    assert repr(back) == repr(value)


DTYPES = (
    [np.dtype(name) for name in ["bool", "int8", "uint64", "float16", "float64", "complex64"]]
    + [np.dtype(name) for name in (">i4", "<M8[ns]", "<m8[s]", "<U3", "S2")]
    + [np.dtype(getattr(ml_dtypes, name)) for name in ("bfloat16", "float8_e4m3fn", "int4")]
)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_arrays_keep_dtype_shape_and_bytes_without_being_pickled(dtype):
    array = np.arange(24).astype(dtype).reshape(2, 3, 4)
    for original in (array, array.T, array[:, ::2], array[:0], array[0, 0, 0:1].reshape(())):
        back = sent(original)
        assert (back.dtype, back.shape) == (original.dtype, original.shape)
        assert back.tobytes() == original.tobytes()
        assert back.flags.writeable
    scalar = sent(array[1, 2, 3])
    assert type(scalar) is type(array[1, 2, 3])
    assert scalar == array[1, 2, 3]


def test_an_arrays_bytes_are_sent_as_they_are_without_a_copy():
    array = np.arange(1000.0)
    header, (buffer,) = codec.encode({"v": array}, pickled=False)
    assert len(header) < 200
    assert np.shares_memory(np.frombuffer(buffer), array)


def test_a_tree_of_jax_arrays_comes_back_with_its_dtypes_and_classes():
    params = {"w": jnp.ones((3, 2), jnp.bfloat16), "b": [jnp.arange(3), Point(jnp.int8(1), 2.5)]}
    import optax  # here, since every process collects these tests, and it takes a while

    state = optax.adam(0.1).init(params)
    back_params, back_state = sent((params, state))
    assert jax.tree.structure((back_params, back_state)) == jax.tree.structure((params, state))
    for here, there in zip(
        jax.tree.leaves((params, state)), jax.tree.leaves((back_params, back_state)), strict=True
    ):
        assert type(here) is type(there)
        assert getattr(here, "dtype", None) == getattr(there, "dtype", None)
        assert (np.asarray(here) == np.asarray(there)).all()


def test_64_bits_and_random_keys_are_kept():
    with jax.enable_x64(True):
        wide = jnp.arange(3) * 2**40
    back = sent(wide)
    assert isinstance(back, jax.Array)
    assert back.dtype == np.int64
    assert (np.asarray(back) == np.asarray(wide)).all()
    key = jax.random.key(7, impl="rbg")
    assert (sent(key) == key).all()


def test_a_named_tuple_of_a_class_that_is_not_here_keeps_name_and_fields():
    header, buffers = codec.encode({"v": Point(1, 2)}, pickled=False)
    elsewhere = json.loads(header.replace(__name__.encode(), b"not.here"))
    back = codec.decode(elsewhere, buffers, unpickle=False, import_jax=False)["v"]
    assert type(back) is not Point
    assert (type(back).__name__, back._fields, back) == ("Point", ("x", "y"), (1, 2))


@pytest.mark.parametrize(
    "make",
    [
        lambda pd: pd.DataFrame(
            {"a": [1, 2], "text": ["x", None], "when": pd.to_datetime(["2024", "2025"])}
        ),
        lambda pd: pd.DataFrame({"any": [1, "x"]}, index=pd.Index(["r", "s"], name="row")),
        lambda pd: pd.DataFrame([[1.5, True]], columns=["same", "same"]),
        lambda pd: pd.DataFrame(index=pd.to_datetime(["2024"])),
        lambda pd: pd.DataFrame(),
        lambda pd: pd.Series([1, 2], name="s", index=range(5, 9, 2), dtype="int8"),
    ],
    ids=range(6),
)
def test_data_frames_of_plain_columns_come_back_without_being_pickled(make):
    import pandas as pd

    frame = make(pd)
    back = sent(frame)
    equal = pd.testing.assert_frame_equal if frame.ndim == 2 else pd.testing.assert_series_equal
    equal(back, frame)
    assert type(back) is type(frame)


def test_an_odd_data_frame_and_a_function_of_a_notebook_are_pickled_with_their_arrays_outside():
    import pandas as pd

    frame = pd.DataFrame({"a": np.arange(100_000.0), "b": pd.Categorical(["x"] * 100_000)})
    with pytest.raises(codec.NeedsPickle, match="v is of the class pandas"):
        sent(frame)
    pd.testing.assert_frame_equal(sent(frame, pickled=True), frame)
    _, buffers = codec.encode({"v": frame}, pickled=True)
    assert any(buffer.nbytes == 800_000 for buffer in buffers)
    offset = 3
    assert sent(lambda x: x + offset, pickled=True)(4) == 7
    array = {"frame": frame, "weights": jnp.ones(1000, jnp.bfloat16), "step": slice(1, 2)}
    back = sent(array, pickled=True)
    assert back["weights"].dtype == jnp.bfloat16
    assert back["step"] == slice(1, 2)


class Runs:
    """Pickled, it is a call."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("code of the other side ran",)


def test_nothing_is_unpickled_unless_it_was_allowed():
    with pytest.raises(codec.NeedsPickle, match=r"v\['model'\]\[1\] is of the class .*Runs"):
        codec.encode({"v": {"model": [1, Runs()]}}, pickled=False)
    header, buffers = codec.encode({"v": {"model": [1, Runs()]}}, pickled=True)
    with pytest.raises(codec.NeedsPickle):  # whatever the other side was told
        codec.decode(json.loads(header), buffers, unpickle=False, import_jax=False)


@pytest.mark.parametrize(
    "coded",
    [
        ["array", "|O", [1], "C", 0],
        ["array", "finfo", [1], "C", 0],
        ["namedtuple", "os", "system", ["x"], 1],
        ["namedtuple", "m", "a b", ["x"], 1],
        ["global", "os.system"],
    ],
)
def test_a_header_cannot_name_code(coded):
    header = {"values": {"v": coded}, "sizes": [8], "python": [3, 11]}
    try:
        back = codec.decode(header, [bytearray(8)], unpickle=False, import_jax=False)["v"]
    except codec.CodecError:
        return
    assert (type(back).__name__, back) == ("system", (1,))  # a tuple of that name, nothing else


@pytest.mark.parametrize(
    "coded",
    [
        ["array", "<f4", [3], "C", 0],
        ["array", "<f4", [2], "C", 9],
        ["array", "<f4"],
        ["array", "<q9", [1], "C", 0],
        ["array", "<f4", "x", "C", 0],
        ["array", "<f4", [-1, 2], "Z", 0],
        ["bytes", "0"],
        ["int", "nine"],
        ["complex", "1", "2"],
        ["set", ["list", 1]],
        ["dict", 1],
        ["scalar", 1],
        ["key", "no such", 1],
        ["DataFrame"],
        [["list"]],
        [],
    ],
)
def test_what_no_encoder_has_made_is_a_codec_error(coded):
    header = {"values": {"v": coded}, "sizes": [8], "python": [3, 11]}
    with pytest.raises(codec.CodecError):
        codec.decode(header, [bytearray(8)], unpickle=False, import_jax=False)


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"3", b"{}", b"\xff", b"[" * 99_999, b'{"sizes": 8}', b'{"sizes": [-1]}',
     b'{"sizes": ["8"]}', b'{"sizes": [' + b"9" * 5000 + b"]}", b'{"sizes": [true]}'],
)  # fmt: skip
def test_a_header_that_is_none_is_a_codec_error(data):
    with pytest.raises(codec.CodecError):
        codec.parse_header(data)


@pytest.mark.parametrize("header", [{}, {"values": 1, "python": []}, {"values": {}}])
def test_a_header_that_lacks_something_is_a_codec_error(header):
    with pytest.raises(codec.CodecError):
        codec.decode(header, [], unpickle=False, import_jax=False)


def test_what_cannot_be_sent_is_reported_with_its_place():
    def complaint(value: Any, **options: Any) -> str:
        with pytest.raises(codec.CodecError) as caught:
            codec.encode({"v": value}, pickled=True, **options)
        return str(caught.value)

    assert "v[0] is of the class generator, which can't be pickled" in complaint([(x for x in ())])
    cycle: list[Any] = []
    cycle.append(cycle)
    assert "contains itself" in complaint(cycle)
    assert "larger than the limit" in complaint(np.zeros(100), limit=799)
    donated = jnp.ones(3)
    donated.delete()
    assert "v was deleted" in complaint(donated)


def test_code_of_another_python_is_refused_before_it_is_read():
    header, buffers = codec.encode({"v": lambda: 1}, pickled=True)
    other = {**json.loads(header), "python": [3, 8]}
    with pytest.raises(codec.CodecError, match=r"code of Python 3\.8"):
        codec.decode(other, buffers, unpickle=True, import_jax=False)
    # By its name it is no code.
    header, buffers = codec.encode({"v": json.dumps}, pickled=True)
    other = {**json.loads(header), "python": [3, 8]}
    assert codec.decode(other, buffers, unpickle=True, import_jax=False)["v"] is json.dumps


# ---- what no `encode` writes ----

_MUTATED = {
    "plain": {"a": [1, 2.5, None, 1 << 70, "ü", (1j, b"x", {3}, frozenset("a"))]},
    "point": Point(1, [2]),
    "array": np.arange(6.0).reshape(2, 3),
    "bits": np.ones(3, ml_dtypes.bfloat16),
    "jax": jnp.arange(4),
    "key": jax.random.key(0),
    "frame": pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]}, index=[5, 6]),
    "series": pandas.Series([1.5, 2.5], name="s"),
    "object": {"pickled": [np.arange(4.0), object(), slice(1, 2)]},
}
_HEADER, _BUFFERS = codec.encode(_MUTATED, pickled=True)
_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(1 << 70), 1 << 70)
    | st.floats()
    | st.sampled_from(["", "list", "dict", "array", "pickle", "jax", "key", "Series", "<f4", "|O"])
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from(["values", "sizes", "python", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@st.composite
def mutated_headers(draw: Any) -> bytes:
    """A real header, of which some parts are replaced, left out, doubled or exchanged."""
    header = json.loads(_HEADER)
    for _ in range(draw(st.integers(1, 3))):
        at = header
        while True:
            keys = list(at) if isinstance(at, dict) else list(range(len(at)))
            if not keys:
                break
            key = draw(st.sampled_from(keys))
            if isinstance(at[key], list | dict) and at[key] and draw(st.integers(0, 4)):
                at = at[key]
                continue
            match draw(st.sampled_from(["replace", "delete", "double", "exchange"])):
                case "delete":
                    del at[key]
                case "double" if isinstance(at, list):
                    at.insert(key, at[key])
                case "exchange":
                    other = draw(st.sampled_from(keys))
                    at[key], at[other] = at[other], at[key]
                case _:
                    at[key] = draw(_json)
            break
    text = json.dumps(header).encode()
    if draw(st.integers(0, 9)):
        return text
    where = draw(st.integers(0, len(text) - 1))
    return text[:where] + draw(st.binary(max_size=3)) + text[where + 1 :]


@settings(max_examples=600, deadline=None)
@given(mutated_headers(), st.booleans(), st.booleans())
def test_whatever_a_header_says_is_values_or_a_codec_error(data, unpickle, import_jax):
    with contextlib.suppress(codec.CodecError):
        header = codec.parse_header(data)
        assert all(size >= 0 for size in header["sizes"])
        codec.decode(header, [*map(bytearray, _BUFFERS)], unpickle=unpickle, import_jax=import_jax)


@given(st.binary() | _json.map(lambda value: json.dumps(value).encode()))
def test_what_is_no_header_is_a_codec_error(data):
    values: Any = {}
    with contextlib.suppress(codec.CodecError):
        values = codec.decode(codec.parse_header(data), [], unpickle=False, import_jax=False)
    assert isinstance(values, dict)


def test_a_header_that_is_nested_deeply_is_a_codec_error():
    with pytest.raises(codec.CodecError):
        codec.parse_header(b"[" * 1_000_000)
    deep: Any = ["list"]
    for _ in range(2000):
        deep = ["list", deep]
    header = {"values": {"v": deep}, "sizes": [], "python": [3, 11]}
    with pytest.raises(codec.CodecError):
        codec.decode(header, [], unpickle=False, import_jax=False)


def test_only_the_variables_that_were_asked_for_arrive():
    """A host must not replace other variables of the notebook."""
    header, buffers = codec.encode({"x": 1, "open": 2}, pickled=False)
    options = {"unpickle": False, "import_jax": False}
    with pytest.raises(codec.CodecError, match="Other variables"):
        codec.decode(json.loads(header), buffers, names=["x"], **options)
    assert codec.decode(json.loads(header), buffers, names=["open", "x"], **options)["x"] == 1


def test_the_class_of_a_named_tuple_is_looked_up_without_running_code_of_a_module():
    asked: list[str] = []
    module = types.ModuleType("lazy_module")
    module.__getattr__ = asked.append
    sys.modules["lazy_module"] = module
    coded = ["namedtuple", "lazy_module", "Evil", ["x"], 1]
    header = {"values": {"v": coded}, "sizes": [], "python": [3, 11]}
    try:
        (value,) = codec.decode(header, [], unpickle=False, import_jax=False).values()
    finally:
        del sys.modules["lazy_module"]
    assert (value.x, asked) == (1, [])

"""A session on this computer in a notebook here: what needs no unpickling."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_session import notebook

from jupyter_tpu.errors import TPUError
from jupyter_tpu.fleet.models import Session
from jupyter_tpu.fleet.sessions import computer
from jupyter_tpu.fleet.sessions.reading import PICKLED, read_session
from jupyter_tpu.on_host.agent.session import plain, storage

CELL = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((4, 2), ("data", "model"))
split = jax.device_put(np.arange(96.0, dtype="float32").reshape(8, 12),
                       NamedSharding(mesh, P("data", "model")))
half, table = jnp.arange(7, dtype=jnp.bfloat16), np.asfortranarray(np.arange(20_000).reshape(4, -1))
small, scalar, empty = np.eye(2), np.float32(0.5), jnp.zeros((0, 3))
losses = {"train": [1.5, float("nan")], ("epoch", 1): (None, True, 2**70, 1j, b"x"), 3: {1, 2}}
params = {"dense": {"kernel": split, "again": [split, table]}}
key = jax.random.key(1)
class Config: pass
config, step = Config(), 7
class Sneaky(dict): pass
sneaky = Sneaky(a=1)
"""


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    """What a kernel on a host has saved, as it is copied here."""
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path / "tpu"))
    (tmp_path / "tpu").mkdir()
    (tmp_path / "tpu" / "session-key").write_text("ab" * 32)
    monkeypatch.setenv("JUPYTER_TPU_SESSION_KEY", "ab" * 32)
    notebook(tmp_path, 8, CELL, "%tpu session save train")
    shutil.copytree(
        tmp_path / ".jupyter-tpu" / "sessions", computer.folder("s1"), dirs_exist_ok=True
    )
    return Session(id="s1", name="train", tpu="my-tpu", place="computer")


def test_arrays_numbers_and_lists_are_there_and_the_rest_is_named(session: Session) -> None:
    read = read_session(session)
    values = read.values
    assert np.array_equal(values["split"], np.arange(96.0).reshape(8, 12))
    assert values["params"]["dense"]["again"][0] is values["split"]
    assert values["params"]["dense"]["again"][1] is values["table"]
    assert np.array_equal(values["table"], np.arange(20_000).reshape(4, -1))
    assert values["half"].dtype.name == "bfloat16"
    assert values["half"].tolist() == list(range(7))
    assert np.array_equal(values["small"], np.eye(2))
    assert (values["scalar"], values["scalar"].dtype) == (np.float32(0.5), np.float32)
    assert values["empty"].shape == (0, 3)
    train = values["losses"].pop("train")
    assert (train[0], np.isnan(train[1])) == (1.5, True)
    assert values["losses"] == {("epoch", 1): (None, True, 2**70, 1j, b"x"), 3: {1, 2}}
    assert values["step"] == 7
    assert {name: read.reasons[name] for name in ("config", "sneaky")} == {
        "config": PICKLED, "sneaky": PICKLED,
    }  # fmt: skip
    assert "random key" in read.reasons["key"]


def test_a_session_that_is_changed_or_not_whole_is_refused(session: Session) -> None:
    here = computer.folder("s1")
    for chunk in (here / "data" / "train" / "arrays").rglob("c/1/*"):
        chunk.unlink()
    read = read_session(session)
    assert "a part of it is missing" in read.reasons["split"]
    assert "table" in read.values
    manifest = here / storage.manifest_path("train")
    manifest.write_text(manifest.read_text().replace("losses", "lasses"))
    with pytest.raises(TPUError, match="signed with another key"):
        read_session(session)
    manifest.unlink()
    with pytest.raises(TPUError, match="not on this computer any more"):
        read_session(session)


def test_an_earlier_manifest_has_no_plain_form(
    session: Session,
) -> None:
    path = computer.folder("s1") / storage.manifest_path("train")
    manifest = json.loads(json.loads(path.read_bytes())["manifest"])
    del manifest["plain"]
    body = json.dumps(manifest)
    signature = storage.signature_of("train", body, bytes.fromhex("ab" * 32))
    path.write_text(json.dumps({"manifest": body, "signature": signature}))
    read = read_session(session)
    assert read.values == {}
    assert read.reasons["step"] == PICKLED


NUMBERS: Any = st.integers() | st.floats(allow_nan=False)
LEAVES: Any = st.none() | st.booleans() | NUMBERS | st.text() | st.binary()
HASHABLE: Any = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3).map(tuple))


@given(
    st.recursive(
        HASHABLE,
        lambda inner: st.lists(inner) | st.dictionaries(HASHABLE, inner) | st.frozensets(HASHABLE),
    )
)
def test_what_has_a_plain_form_is_the_same_again(value: Any) -> None:
    encoded = plain.encode_all({"x": value}, lambda _: None)
    if encoded:  # not too deep
        again = plain.decode(json.loads(json.dumps(encoded["x"])), lambda _: None)
        assert repr(again) == repr(value) or again == value

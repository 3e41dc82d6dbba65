"""Stored sessions without a kernel: listed and deleted, of others, and while a kernel saves."""

import io
import json
from typing import Any

import pytest

from jupyter_tpu.on_host.agent.session import stored
from jupyter_tpu.on_host.agent.session.storage import FORMAT, SessionError, Storage, signature_of

KEY = b"k" * 32


def manifest(**more: Any) -> dict[str, Any]:
    return {
        "save": "1", "saved": 1000.0, "about": {"tpu": "my-tpu", "emulated": True},
        "python": [3, 13], "jax": None, "reasons": {"loader": "a generator"}, "arrays": {},
        "groups": [{"names": ["a", "b"], "digest": "d", "bytes": 7}], **more,
    }  # fmt: skip


def saved(folder: Any, name: str, key: bytes = KEY, **more: Any) -> Storage:
    storage = Storage(str(folder), key)
    _, generation = storage.manifest(name)
    storage.write_manifest(name, manifest(**more), generation)
    return storage


def answer(monkeypatch: Any, capsys: Any, **query: Any) -> dict[str, Any]:
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps({"key": KEY.hex(), **query})))
    assert stored.main() == 0
    return json.loads(capsys.readouterr().out)


def test_sessions_are_listed_and_one_that_can_not_be_read_says_why(tmp_path, monkeypatch, capsys):
    saved(tmp_path, "mine")
    saved(tmp_path, "theirs", key=b"x" * 32)
    body = json.dumps({**manifest(), "format": FORMAT + 1, "version": "9.9"})
    envelope = {"manifest": body, "signature": signature_of("newer", body, KEY)}
    (tmp_path / "manifests" / "newer.json").write_text(json.dumps(envelope))
    (tmp_path / "manifests" / "damaged.json").write_text("{")
    listed = answer(monkeypatch, capsys, do="list", place=str(tmp_path))["sessions"]
    by_name = {session["name"]: session for session in listed}
    assert by_name["mine"]["variables"] == 2
    assert by_name["mine"]["missing"] == [["loader", "a generator"]]
    assert (by_name["mine"]["tpu"], by_name["mine"]["emulated"]) == ("my-tpu", True)
    assert "signed with another key" in by_name["theirs"]["problem"]
    assert "newer version of jupyter-tpu, 9.9" in by_name["newer"]["problem"]
    assert "is damaged" in by_name["damaged"]["problem"]
    assert answer(monkeypatch, capsys, do="forget", place=str(tmp_path), name="mine")["forgotten"]
    gone = answer(monkeypatch, capsys, do="forget", place=str(tmp_path), name="mine")
    assert gone == {"forgotten": False}


def test_a_save_that_has_begun_before_a_session_was_deleted_does_not_end(tmp_path):
    storage = saved(tmp_path, "train")
    _, generation = storage.manifest("train")
    assert storage.forget("train")
    with pytest.raises(SessionError, match="Another kernel"):
        storage.write_manifest("train", manifest(), generation)
    assert storage.list() == []


def test_a_deletion_that_was_interrupted_is_seen_and_done_again(tmp_path, monkeypatch):
    storage = saved(tmp_path, "train")
    with monkeypatch.context() as patch:
        patch.setattr(storage, "remove_unused", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            storage.forget("train")
    assert storage.list() == ["train"]
    with pytest.raises(SessionError, match="is being deleted"):
        storage.manifest("train")
    storage.forget("train")
    assert storage.list() == []

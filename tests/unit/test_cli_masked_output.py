"""What `jupyter tpu` prints for a coding agent: no value of a token that TPUs get is in it."""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest

from jupyter_tpu import tokens
from jupyter_tpu.agent_token import AGENT_VARIABLE
from jupyter_tpu.terminal import streams as terminal
from jupyter_tpu.terminal.streams import CleanStream, write_plain


@pytest.fixture(autouse=True)
def token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("JUPYTER_TPU_DATA_DIR", str(tmp_path / "tpu"))
    monkeypatch.setenv("HF_TOKEN", "hf_verysecret")
    tokens.pass_on("HF_TOKEN")
    terminal._secrets.cache_clear()
    yield
    terminal._secrets.cache_clear()


def printed() -> bytes:
    """What a command prints itself, and of a host's program."""
    below = io.BytesIO()
    stream = CleanStream(io.TextIOWrapper(below, encoding="utf-8", write_through=True))
    stream.write("log: hf_verysecret\n")
    write_plain(stream, "cell: hf_verysecret\n")
    write_plain(stream, b"run: \xff hf_verysecret\n")
    return below.getvalue()


def test_a_script_that_prints_a_token_shows_its_name_to_an_agent(monkeypatch):
    monkeypatch.setenv(AGENT_VARIABLE, "1")
    assert printed() == b"log: [HF_TOKEN]\ncell: [HF_TOKEN]\nrun: \xff [HF_TOKEN]\n"


def test_a_person_sees_what_was_printed(monkeypatch):
    monkeypatch.delenv(AGENT_VARIABLE, raising=False)
    assert printed().count(b"hf_verysecret") == 3

"""Names on a host may be any bytes: whatever is said of them can be read as JSON in UTF-8."""

import json
import os
from pathlib import Path

import pytest

from jupyter_tpu.on_host.agent.protocol import frames
from jupyter_tpu.on_host.agent.protocol.chips import holders
from jupyter_tpu.on_host.agent.protocol.processes import origin
from jupyter_tpu.on_host.calls import protocol
from jupyter_tpu.on_host.chips import holders as chip_holders

NAME = b"dat\xe4.csv"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A host whose chip is held by a process with such an argument, notebook and name."""
    process = tmp_path / "proc/77"
    (process / "fd").mkdir(parents=True)
    (process / "fd/3").symlink_to("/dev/accel0")
    (process / "cmdline").write_bytes(b"/usr/bin/python\0train.py\0" + NAME + b"\0")
    (process / "environ").write_bytes(chip_holders.NOTEBOOK + b"/home/me/" + NAME + b"\0")
    (process / "status").write_bytes(b"Name:\t" + NAME + b"\nNSpid:\t77\t1\n")
    (process / "cgroup").write_bytes(b"0::/" + NAME + b"\n")
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/accel0").touch()
    return tmp_path


def test_a_process_with_an_argument_that_is_no_text_is_named(root):
    [holder] = holders(str(root))
    assert holder["command"] == "python train.py dat\ufffd.csv"
    assert origin(77, str(root))["container"] == "?"


def test_what_the_daemon_and_the_keeper_answer_is_utf_8(root):
    name = os.fsdecode(NAME)
    for line in (
        frames.json_line({"name": name, "日本": "語"}),
        frames.encode(frames.Notice({"name": name, "日本": "語"}))[5:],
    ):
        answer = json.loads(line.decode("utf-8"))
        assert answer == {"name": "dat?.csv", "日本": "語"}


@pytest.mark.parametrize("plain", [True, False])
def test_what_a_program_on_a_host_answers_is_utf_8(plain, monkeypatch, capfdbinary):
    monkeypatch.setattr(protocol, "plain", plain)
    protocol.emit(log=os.fsdecode(NAME))
    protocol.emit(result=[os.fsdecode(NAME)])
    said = capfdbinary.readouterr().out.decode("utf-8").splitlines()
    assert said == (["dat?.csv"] if plain else ['{"log": "dat?.csv"}', '{"result": ["dat?.csv"]}'])


def test_a_notebook_with_such_a_name_is_named(root):
    [holder] = chip_holders.visible_holders(str(root))
    assert holder["notebook"] == "dat\ufffd.csv"

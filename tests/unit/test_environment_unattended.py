"""The startup script of a TPU that begins by itself. What it does on a host is a long test."""

import base64
import bz2
import json
import os
import random
import subprocess
from typing import Any

import pytest

from jupyter_tpu.environment import (
    EnvironmentSpec,
    HostSetup,
    UnattendedStart,
    is_unattended,
    own_script,
    startup_script,
)
from jupyter_tpu.environment.unattended import LONGEST_VALUE_BYTES
from jupyter_tpu.errors import InvalidInput


def script(**changes: Any) -> str:
    fields: dict[str, Any] = {
        "user": "ann",
        "job": "abcd1234",
        "command": "python 'my train.py' $HOME",
        "environment": EnvironmentSpec(environment="default", lock="jax==0.7.0\nlibtpu==0.0.20\n"),
        "emulated": False,
        **changes,
    }
    return startup_script(UnattendedStart(**fields))


def request(text: str) -> dict[str, Any]:
    """What the program in a script is told."""
    packed = text.partition("<<'END'\n")[2].partition("\nEND\n")[0]
    data = bz2.decompress(base64.b85decode(packed.replace("\n", "")))
    size, _, rest = data.partition(b"\n")
    answer: dict[str, Any] = json.loads(rest[int(size) :])
    return answer


def impatient(text: str) -> str:
    """The script, which does not wait for the user."""
    assert text.count("USER_LIMIT = 900") == 1
    return text.replace("USER_LIMIT = 900", "USER_LIMIT = 0")


def test_it_is_plain_text_that_a_shell_reads_and_fits_into_metadata(tmp_path):
    text = script()
    assert text.isascii()
    assert len(text) < LONGEST_VALUE_BYTES - 21_000, "too little is left for a user's own"
    file = tmp_path / "startup-script"
    file.write_text(text)
    subprocess.run(["sh", "-n", file], check=True)
    told = request(text)
    assert told["command"] == "python 'my train.py' $HOME"
    assert "libtpu==0.0.20" in told["environment"]["lock"]
    assert "libtpu" not in request(script(emulated=True))["environment"]["lock"]


def test_it_waits_for_its_user_and_says_that_nobody_has_made_one(tmp_path):
    file = tmp_path / "startup-script"
    file.write_text(impatient(script(user="nobody-of-this-name")))
    home = tmp_path / "home"
    done = subprocess.run(
        ["sh", file], env={**os.environ, "HOME": str(home)}, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (
        1,
        "The user nobody-of-this-name does not exist on this host.\n",
    )
    assert not home.exists()


def test_the_startup_script_that_was_asked_for_runs_beside_ours(tmp_path):
    """Whatever it does at once, what sets the guard runs, too."""
    mine = "#!/bin/sh\necho mine\nexit 7\n"
    text = impatient(script(user="nobody-of-this-name", own=mine))
    assert own_script(text) == mine
    assert own_script(script()) == ""
    assert own_script(mine) == mine
    assert not is_unattended(text)  # it stays in the metadata when ours has done its work
    file = tmp_path / "startup-script"
    file.write_text(text)
    done = subprocess.run(["sh", file], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (7, "mine\n")
    assert done.stderr == "The user nobody-of-this-name does not exist on this host.\n"


def test_one_that_is_too_long_for_metadata_is_refused():
    noise = base64.b64encode(random.Random(1).randbytes(200_000)).decode()
    spec = EnvironmentSpec(environment="default", setup=HostSetup(script=noise))
    with pytest.raises(InvalidInput, match=r"startup script of \d+ KiB; it can have 256 KiB"):
        script(environment=spec)

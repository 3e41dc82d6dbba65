"""Connections work with an asyncssh that lacks private parts that we use, and each is said.

The parts that one class has for one use are renamed in a copy of the installed asyncssh: without
any of them the use has its plain way.
"""

import getpass
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import asyncssh
import msgspec
from own_sshd import needs_sshd, running_sshd

from jupyter_tpu.ssh import HostAddress, ensure_key, public_key
from jupyter_tpu.ssh.asyncssh_internals import INTERNALS

pytestmark = needs_sshd

#: The parts of each copy, whose folder has the number as its name.
PARTS = {
    str(number): [re.split(r"[:(]", part)[0] for part in internal.parts]
    for number, internal in enumerate(INTERNALS)
}
INSTALLED = Path(asyncssh.__file__).parent
CONFIG = 'Match exec "true"\n  ProxyJump me@jump.example:2222\n'


def renamed(parts: list[str], folder: Path) -> str:
    """A copy of asyncssh in which the parts have other names. Unchanged files are links."""
    # These two are also names of documented arguments.
    before = r"(?<=\.)" if "tunnel" in parts else r"\b"
    part = re.compile(rf"{before}({'|'.join(parts)})\b")
    for source in INSTALLED.rglob("*.py*"):
        target = folder / "asyncssh" / source.relative_to(INSTALLED)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".py" and part.search(text := source.read_text()):
            target.write_text(part.sub(r"\1_renamed", text))
        else:
            target.symlink_to(source)
    return str(folder)


def test_connections_work_without_the_private_parts_of_each_use(tmp_path):
    key = ensure_key(tmp_path / "id")
    (tmp_path / "authorized").write_text(public_key(key) + "\n")
    (tmp_path / "user_config").write_text(CONFIG)
    folders = [renamed(parts, tmp_path / name) for name, parts in PARTS.items()]
    with running_sshd(tmp_path, tmp_path / "authorized") as (port, host_key):
        host = HostAddress(
            address="127.0.0.1",
            port=port,
            user=getpass.getuser(),
            host_keys=(host_key,),
            alias="tpu.42-0",
            identity_file=key,
        )
        programs = []
        for share in (folders[::2], folders[1::2]):
            program = subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("renamed_asyncssh.py"))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "HOME": str(tmp_path)},
                text=True,
            )
            given = {
                "host": msgspec.structs.asdict(host),
                "folders": share,
                "config": str(tmp_path / "user_config"),
            }
            program.stdin.write(json.dumps(given, default=str))
            program.stdin.close()
            programs.append(program)
        answers = {}
        for program in programs:
            assert program.stdout is not None
            for line in program.stdout:
                answer = json.loads(line)
                answers[Path(answer["asyncssh"]).parents[1].name] = answer
            assert program.wait() == 0
    assert answers.keys() == PARTS.keys()
    for name, answer in answers.items():
        for part in PARTS[name]:
            for lines in (answer["doctor"], answer["logged"]):
                said = f"{INTERNALS[int(name)].owner}.{part}"
                assert any(said in line for line in lines), said
        assert answer["jumps"] == ["me@jump.example:2222"], name
        assert (answer["down"], answer["up"]) == (True, 1 << 20), name
        assert (answer["silent"], answer["aborted"]) == (False, "UNREACHABLE"), name

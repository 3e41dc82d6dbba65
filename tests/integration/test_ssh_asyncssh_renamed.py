"""Connections work with an asyncssh that lacks a private part that we use, and it is said.

Each listed part is renamed in a copy of the installed asyncssh, one at a time.
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

PARTS = {
    re.split(r"[:(]", part)[0]: internal.owner for internal in INTERNALS for part in internal.parts
}
INSTALLED = Path(asyncssh.__file__).parent
CONFIG = 'Match exec "true"\n  ProxyJump me@jump.example:2222\n'


def renamed(name: str, folder: Path) -> str:
    """A copy of asyncssh in which the part has another name. Unchanged files are links."""
    # These two are also names of documented arguments.
    before = r"(?<=\.)" if name in ("tunnel", "proxy_command") else r"\b"
    part = re.compile(f"{before}{name}\\b")
    for source in INSTALLED.rglob("*.py*"):
        target = folder / name / "asyncssh" / source.relative_to(INSTALLED)
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".py" and part.search(text := source.read_text()):
            target.write_text(part.sub(f"{name}_renamed", text))
        else:
            target.symlink_to(source)
    return str(folder / name)


def test_connections_work_without_each_private_part(tmp_path):
    key = ensure_key(tmp_path / "id")
    (tmp_path / "authorized").write_text(public_key(key) + "\n")
    (tmp_path / "user_config").write_text(CONFIG)
    folders = {name: renamed(name, tmp_path / "copies") for name in PARTS}
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
        for share in ([*folders.values()][::2], [*folders.values()][1::2]):
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
        part = f"{PARTS[name]}.{name}"
        for lines in (answer["doctor"], answer["logged"]):
            assert any(part in line for line in lines), name
        assert answer["jumps"] == ["me@jump.example:2222"], name
        assert (answer["down"], answer["up"]) == (True, 1 << 20), name
        assert (answer["silent"], answer["aborted"]) == (False, "UNREACHABLE"), name

"""Commands on hosts whose login shell is not a quiet bash: real shells behind a real sshd."""

import contextlib
import getpass
import os
import resource
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from own_sshd import needs_sshd, running_sshd
from refusals import raises
from waiting import eventually

from jupyter_tpu.errors import Reason, TPUError
from jupyter_tpu.ssh import HostAddress, SSHConnection, connect, ensure_key, login_shell, public_key
from jupyter_tpu.ssh.agent_client import ensure_agent
from jupyter_tpu.ssh.clean_shell import clean_shell
from jupyter_tpu.ssh.login_shell import GREETING_LIMIT

pytestmark = needs_sshd

#: The file that each shell reads before a command.
RC = {"bash": ".bashrc", "zsh": ".zshenv", "tcsh": ".tcshrc", "bsd-csh": ".cshrc",
      "fish": ".config/fish/config.fish"}  # fmt: skip
SHELLS = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            shutil.which(name) is None, reason=f"SKIPPED FOR WANT OF {name}: install it"
        ),
    )
    for name in RC
]
#: What people have in them: a line, and a window's title without an end of line.
NOISE = """echo Welcome; echo '{"socket": "none"}'; printf '\\033]0;title\\007'
sh -c 'echo problem >&2; printf part >&2'
"""


@contextlib.asynccontextmanager
async def connected(folder: Path, shell: str, rc: str = "") -> AsyncIterator[SSHConnection]:
    """To a host whose user has this login shell, which reads *rc* first."""
    home = folder / "home"
    file = home / RC.get(shell, ".none")
    file.parent.mkdir(parents=True)
    file.write_text(rc)
    key = ensure_key(folder / "id")
    (folder / "authorized").write_text(public_key(key) + "\n")
    settings = [f"SetEnv HOME={home}"]
    if shell != "bash":  # of root here, it reads ~/.bashrc itself
        program = shutil.which(shell, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        settings.append(f'ForceCommand exec {program} -c "$SSH_ORIGINAL_COMMAND"')
    with running_sshd(folder, folder / "authorized", *settings) as (port, host_key):
        made = await connect(
            HostAddress(
                address="127.0.0.1",
                port=port,
                user=getpass.getuser(),
                host_keys=(host_key,),
                alias="tpu.1-0",
                name="my-tpu",
                identity_file=key,
            )
        )
        yield made
        await made.close()


@pytest.mark.parametrize("shell", SHELLS)
async def test_commands_are_the_same_in_each_login_shell_whatever_it_prints_first(tmp_path, shell):
    odd = "it's $HOME; `x` \"q\" *\n\\ é ! !! !$ 100% ^a^b~\\n'!" + "x\n'" * 5000
    async with connected(tmp_path, shell, NOISE) as connection:
        done = await connection.run(
            ["sh", "-c", 'printf "%s|%s|" "$1" "$VALUE"; cat; echo mine >&2', "sh", odd],
            env={"VALUE": "it's\n!"},
            input=b"typed\xff",
        )
        assert done.stdout == f"{odd}|it's\n!|typed\N{REPLACEMENT CHARACTER}"
        assert done.stderr == "mine\n"
        lines: list[str] = []
        await connection.run(["sh", "-c", "echo a; echo b >&2"], on_line=lines.append)
        assert sorted(lines) == ["a", "b"]
        async with connection.stream(["sh", "-c", "echo mine >&2; cat"]) as stream:
            await stream.write(b"\0line\nrest")
            assert await stream.read_line() == b"\0line\n"
            assert stream.errors in ("mine\n", "")  # it may be on its way


async def test_the_agent_starts_behind_a_shell_that_prints(tmp_path):
    async with connected(tmp_path, "bash", NOISE) as connection:
        agent = await ensure_agent(connection.run, connection.open_unix)
        assert agent.hello["pid"]
        await agent.close()


@pytest.mark.parametrize("shell", SHELLS)
async def test_a_shell_with_clean_variables_starts_in_each_login_shell(tmp_path, shell):
    async with connected(tmp_path, shell) as connection:
        line = clean_shell('echo "cache=$JAX_COMPILATION_CACHE_DIR"')
        done = await connection._ssh.run(line)
        assert done.stdout.startswith(f"cache={tmp_path}/home/.cache"), done.stderr


@pytest.mark.parametrize(
    ("shell", "rc", "said"),
    [
        ("bash", "echo bye; exit 0", ": bye."),
        ("bash", "exec cat", "."),  # a shell, a terminal multiplexer
        ("nologin", "", ": This account is currently not available."),
        ("false", "", "."),
    ],
)
async def test_a_shell_that_does_not_run_commands_is_named(tmp_path, shell, rc, said, monkeypatch):
    async with connected(tmp_path, shell, rc) as connection:
        begins = f"The login shell or ~/.bashrc of {getpass.getuser()} on my-tpu "
        run = connection.run
        for asking in (run(["true"]), ensure_agent(run, connection.open_unix)):
            with raises(Reason.LOGIN_SHELL) as caught:
                await asking
            assert caught.value.message == f"{begins}ended or read the command{said}"
            assert "ry again" not in str(caught.value)
        # What has input gets no answer of a shell that waits for more of it.
        monkeypatch.setattr(login_shell, "START_LIMIT", 1.0)
        with raises(Reason.LOGIN_SHELL):
            await connection.run(["cat"], input=b"touch /tmp/never\n")
        with raises(Reason.LOGIN_SHELL) as caught:
            async with connection.stream(["cat"]):
                pass
        assert caught.value.message.startswith(begins)


async def test_a_shell_that_reads_gets_none_of_the_input(tmp_path, monkeypatch):
    monkeypatch.setattr(login_shell, "START_LIMIT", 1.0)
    async with connected(tmp_path, "bash", "exec sh") as connection:
        with raises(Reason.LOGIN_SHELL, r"did not start a command within 1 s"):
            await connection.run(["cat"], input=b"touch made\n", cwd=str(tmp_path))
        assert not (tmp_path / "made").exists()


@pytest.mark.parametrize("stream", [1, 2])
async def test_a_shell_that_prints_without_end_is_stopped_early(tmp_path, stream):
    rc = f"echo $$ > {tmp_path}/pid; cat /dev/zero >&{stream}"
    async with connected(tmp_path, "bash", rc) as connection:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with raises(Reason.LOGIN_SHELL, "wrote more than 1 MB before the command"):
            await connection.run(["true"])
        with pytest.raises(TPUError, match="wrote more than 1 MB before the command"):
            async with connection.stream(["true"]):
                pass
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 64 * GREETING_LIMIT >> 10


async def test_output_without_end_ends_the_command(tmp_path):
    async with connected(tmp_path, "bash") as connection:
        script = f"echo $$ > {tmp_path}/pid; exec cat /dev/zero"
        for on_line in (None, lambda line: None):
            with raises(Reason.INTERNAL, r"wrote more than 1 MB.* and was stopped"):
                await connection.run(["sh", "-c", script], max_output=1 << 20, on_line=on_line)
            pid = (tmp_path / "pid").read_text().strip()
            await eventually(lambda pid=pid: not Path("/proc", pid).exists())

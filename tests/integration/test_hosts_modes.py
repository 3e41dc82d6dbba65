"""The other ways of running hosts, really tried as an unprivileged user, and the choice among them.

As root, a user without an account gets one in a mount namespace of the test's own: /etc/passwd and
/etc/subuid are covered there, never changed. test_hosts_life.py then runs as that user.
"""

import asyncio
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from refusals import raises

from jupyter_tpu.emulator.hosts import Runtime
from jupyter_tpu.errors import Reason

UID = 61234
REPOSITORY = Path(__file__).parents[2]
LIFE = Path(__file__).with_name("test_hosts_life.py")
#: What `make test` tries, in the mode "subuid". `make test-long` tries everything else.
ESSENTIAL = (
    "own_name or terminal or sudo_makes or own_files or taken_away or daemons_clears"
    " or emulator_is_killed or python_tools or small_disk or cannot_change or uv_cache"
)


def closed_parents(paths: list[Path]) -> list[Path]:
    """Folders on the way to *paths* that another user can't pass, outermost only."""
    parents: list[Path] = []
    for path in paths:
        for parent in reversed(path.parents):
            if not parent.stat().st_mode & stat.S_IXOTH:
                if parent not in parents:
                    parents.append(parent)
                break
    return parents


def as_somebody(folder: Path, subuids: bool, *command: str) -> list[str]:
    """The command that runs *command* as an unprivileged user with a home below *folder*.

    Python and this repository are bound in where only root could reach them.
    """
    needed = [Path(sys.base_prefix).resolve(), Path(sys.prefix).resolve(), REPOSITORY]
    home = folder / "somebody"
    (folder / "passwd").write_text(
        Path("/etc/passwd").read_text() + f"somebody:x:{UID}:{UID}::{home}:/bin/bash\n"
    )
    (folder / "subids").write_text("somebody:1000000:65536\n" if subuids else "")
    home.mkdir(exist_ok=True)
    os.chown(home, UID, UID)
    home.chmod(0o700)
    lines = ["set -e", f"cd {shlex.quote(str(folder))}", "mount --make-rprivate /"]
    closed = closed_parents(needed)
    for number, path in enumerate(needed):
        if any(parent in path.parents for parent in closed):
            hold = shlex.quote(str(folder / f"hold-{number}"))
            lines.append(f"mkdir -p {hold}; mount --bind {shlex.quote(str(path))} {hold}")
    lines += [f"mount -t tmpfs -o mode=711 closed {shlex.quote(str(path))}" for path in closed]
    for number, path in enumerate(needed):
        if any(parent in path.parents for parent in closed):
            inner = shlex.quote(str(path))
            lines.append(f"mkdir -p {inner}; mount --bind hold-{number} {inner}")
    for name, target in (("passwd", "passwd"), ("subids", "subuid"), ("subids", "subgid")):
        lines.append(f"[ ! -e /etc/{target} ] || mount --bind {name} /etc/{target}")
    lines += [f"export HOME={shlex.quote(str(home))}", "cd ~"]
    lines.append(
        f"exec setpriv --reuid {UID} --regid {UID} --clear-groups -- {shlex.join(command)}"
    )
    return ["unshare", "--mount", "--fork", "--kill-child=KILL", "sh", "-c", "\n".join(lines)]


@pytest.fixture(scope="module")
def open_folder() -> Iterator[Path]:
    """A folder that other users can reach, which those of pytest are not.

    One for all tests here: what an unprivileged user's hosts share takes seconds to make.
    """
    base = Path(tempfile.gettempdir())
    if closed_parents([base / "x"]):
        base = Path("/var/tmp")
    folder = Path(tempfile.mkdtemp(prefix="jupyter-tpu-hosts-", dir=base))
    folder.chmod(0o711)
    yield folder
    subprocess.run(["chmod", "-R", "u+rwx", folder], check=True)  # what overlays leave is closed
    shutil.rmtree(folder)


def run_life(folder: Path, mode: str, *options: str) -> str:
    """What pytest says of test_hosts_life.py in *mode*, which it must pass."""
    command = [
        *(
            sys.executable,
            "-m",
            "pytest",
            str(LIFE),
            "--noconftest",
            "-c",
            os.devnull,
            "-q",
            "-rfEs",
        ),
        *("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "--strict-markers"),
        *("-o", "asyncio_mode=strict", "-o", "asyncio_default_fixture_loop_scope=function"),
        *("-o", "markers=long", *options),
    ]
    if os.geteuid() == 0:
        basetemp = folder / "somebody" / f"tmp-{mode}"
        command += ["--basetemp", str(basetemp)]
        command = as_somebody(folder, mode == "subuid", *command)
    environment = {
        **os.environ,
        "JUPYTER_TPU_TEST_HOSTS": mode,
        "PYTHONDONTWRITEBYTECODE": "1",
        "JUPYTER_TPU_TEST_HOSTS_STATE": str(folder / "somebody" / "state"),
        "PYTHONPATH": os.pathsep.join([str(REPOSITORY), str(REPOSITORY / "tests")]),
        "PYTEST_ADDOPTS": "",  # those of this run may name files that only its user may write
    }
    environment.pop("UV_EXCLUDE", None)  # a file of this run, which its user alone may read
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=900, cwd=folder
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    return done.stdout


def needs(mode: str) -> None:
    """Skips, loudly, where *mode* can't be tried."""
    if sys.platform != "linux" or shutil.which("unshare") is None:
        pytest.skip(f"emulated hosts: THE MODE {mode!r} IS NOT TESTED: no Linux namespaces")
    if mode == "subuid" and shutil.which("newuidmap") is None:
        pytest.skip("emulated hosts: THE MODE 'subuid' IS NOT TESTED: newuidmap is not installed")
    if os.geteuid() != 0:
        user = subprocess.run(["id", "-un"], capture_output=True, text=True).stdout.strip()
        if mode == "subuid" and not re.search(
            rf"^({re.escape(user)}|{os.geteuid()}):", Path("/etc/subuid").read_text(), re.MULTILINE
        ):
            pytest.skip("emulated hosts: THE MODE 'subuid' IS NOT TESTED: no entry in /etc/subuid")
    probe = ["unshare", "--user", "--map-root-user", "true"]
    if os.geteuid() == 0:
        probe = ["setpriv", "--reuid", str(UID), "--clear-groups", "--", *probe]
    if subprocess.run(probe, capture_output=True).returncode:
        pytest.skip(f"emulated hosts: THE MODE {mode!r} IS NOT TESTED: user namespaces are refused")


def passed(folder: Path, mode: str, *options: str) -> int:
    """How many tests of test_hosts_life.py passed in *mode*."""
    needs(mode)
    output = run_life(folder, mode, *options)
    return int(re.search(r"(\d+) passed", output)[1])


def test_an_unprivileged_user_has_hosts_like_roots(open_folder):
    assert passed(open_folder, "subuid", "-k", ESSENTIAL) >= 11


@pytest.mark.long
@pytest.mark.parametrize(("mode", "tests"), [("subuid", f"not ({ESSENTIAL})"), ("user", "")])
def test_everything_that_holds_for_roots_hosts_holds_for_an_unprivileged_users(
    open_folder, mode, tests
):
    assert passed(open_folder, mode, "-k", tests) >= 20


CHOICE = """
import asyncio, sys
from pathlib import Path
from jupyter_tpu.emulator.hosts import Runtime
runtime = asyncio.run(Runtime.probe(Path(sys.argv[1])))
print(runtime.mode, runtime.max_hosts)
for sentence in runtime.skipped:
    print(sentence)
"""


def choice(folder: Path, subuids: bool) -> list[str]:
    state = folder / "somebody" / "state"
    command = as_somebody(folder, subuids, sys.executable, "-c", CHOICE, str(state))
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become other users")
def test_the_best_mode_that_works_is_chosen_and_what_it_lacks_is_listed(open_folder):
    needs("subuid")
    first, *lacks = choice(open_folder, subuids=True)
    assert first == "subuid None"
    assert any("port 22" in sentence for sentence in lacks)
    first, *lacks = choice(open_folder, subuids=False)
    assert first == "user None"
    assert any("the same uid" in sentence for sentence in lacks)
    assert any("/etc/subuid" in sentence for sentence in lacks)  # why not better


async def test_a_mode_that_does_not_exist_is_refused_with_those_that_do(tmp_path):
    with raises(Reason.INVALID) as problem:
        await Runtime.probe(tmp_path / "state", "docker")
    assert "fallback" in problem.value.hint


async def test_a_mode_that_does_not_work_here_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr("jupyter_tpu.emulator.hosts.etc.PATH", str(tmp_path))
    for mode in ("root", "subuid", "user"):
        with raises(Reason.UNAVAILABLE) as problem:
            await Runtime.probe(tmp_path / "state", mode)
        assert "unshare" in problem.value.message
    runtime = await Runtime.probe(tmp_path / "state")
    assert (runtime.mode, runtime.max_hosts) == ("fallback", 1)
    assert any("sshd" in sentence for sentence in runtime.skipped)


async def test_emulators_that_begin_at_once_run_their_hosts_in_the_best_way_all_of_them(tmp_path):
    alone = await Runtime.probe(tmp_path / "alone")
    begun = await asyncio.gather(*(Runtime.probe(tmp_path / f"state-{n}") for n in range(3)))
    assert [runtime.mode for runtime in begun] == [alone.mode] * 3


@pytest.mark.skipif(os.geteuid() != 0, reason="as somebody else it is tried above")
async def test_root_may_have_hosts_like_other_users(tmp_path):
    needs("user")
    assert (await Runtime.probe(tmp_path / "state", "user")).mode == "user"

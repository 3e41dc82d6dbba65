"""A host that lies to a sync: what it sends, and says that it has, may be anybody's."""

import base64
import json
import os
import tracemalloc
import zlib
from pathlib import Path

import pytest
from test_sync_hosts import MIB, Syncs, content, write

from jupyter_tpu.errors import Reason
from jupyter_tpu.files.sync import HostOutcome, remote
from jupyter_tpu.files.sync.ignore import ProjectRules
from jupyter_tpu.on_host.files.tree import is_inside, is_safe
from jupyter_tpu.on_host.packing import PACKAGE

HOOK = b"#!/bin/sh\nrm -rf ~\n"


@pytest.fixture
def syncs(tmp_path: Path) -> Syncs:
    """A repository here, and a folder with a result on the host."""
    syncs = Syncs(tmp_path, 1)
    write(syncs.here / ".git" / "hooks", sample="1")
    write(syncs.here, **{".gitignore": "secrets/\n"})
    write(syncs.there(), result="1")
    return syncs


def lie(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """The host's program is another one: *code* changes the module ``project`` before it runs."""

    imports = f"from {PACKAGE}.files import changes, project"

    def lying(main: str) -> bytes:
        sources = json.loads(zlib.decompress(real(main).partition(b"\n")[2]))
        text = f"{imports}\n{code}\nmain = project.main\n"
        packed = zlib.compress(json.dumps({"lie": text, **sources}).encode())
        return b"%d\n%b" % (len(packed), packed)

    real = remote.program
    monkeypatch.setattr(remote, "program", lying)


def lie_about_tree(monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]) -> None:
    """The host says that it has files of these names, too, and sends them when it is asked."""
    names = {name: base64.b64encode(data).decode() for name, data in files.items()}
    lie(
        monkeypatch,
        f"""
import base64, hashlib
FILES = {{n: base64.b64decode(d) for n, d in {names!r}.items()}}
walk, send_file = project.ProjectFolder.walk, changes.send_file
def lying_walk(self, rules, limits):
    answer = walk(self, rules, limits)
    for name, data in FILES.items():
        state = "program " + hashlib.blake2b(data, digest_size=16).hexdigest()
        if data.startswith(b"link "):
            state = data.decode()
        answer["tree"][name] = [state, len(data), 1.0]
    return answer
def lying_file(peer, number, path, *more):
    for name, data in FILES.items():
        if path.endswith("/" + name):
            peer.send(file=number, offset=0)
            peer.send(data, data=len(data))
            peer.send(hash="")
            return
    send_file(peer, number, path, *more)
project.ProjectFolder.walk, changes.send_file = lying_walk, lying_file
""",
    )


def lie_in_stream(monkeypatch: pytest.MonkeyPatch, sends: str) -> None:
    """The host sends what *sends* does instead of the content of the first file."""
    lie(
        monkeypatch,
        f"""
def lying(peer, *_):
    peer.send(file=0, offset=0)
    {sends}
project.send_contents = lying
""",
    )


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


async def test_a_host_sends_contents_of_the_files_that_were_asked_for_and_nothing_else(
    syncs, monkeypatch
):
    """It sent a hook of Git instead of the result, executable, and said that it is a new file."""
    lie_in_stream(
        monkeypatch,
        f"hook = {HOOK!r}\n"
        "    peer.send(hook, data=len(hook), path='.git/hooks/post-commit')\n"
        "    peer.send(hash='')",
    )
    outcome = await syncs.pull()
    assert everything(syncs.here) == {".git/hooks/sample", ".gitignore"}
    assert (outcome.written, outcome.deleted) == ([], [])
    assert "invalid answer" in outcome.problem.message


@pytest.mark.parametrize(
    "path",
    [
        ".git/hooks/post-commit",
        ".GIT/hooks/post-commit",
        ".g\u200cit/hooks/post-commit",
        "git~1/hooks/post-commit",
        ".git./config",
        ".git",
        "sub/.git/config",
        "secrets/key",
        "env/lib/site.pth",
        ".venv/bin/python",
        "../outside",
        "/tmp/outside",
        "sub/../../outside",
        "sub//outside",
        "a\0b",
        "a" * 256,
        "a/" * 2100 + "a",
    ],
)
async def test_what_is_never_copied_does_not_come_from_a_host_either(syncs, monkeypatch, path):
    write(syncs.here / "env", **{"pyvenv.cfg": ""})
    before = everything(syncs.here)
    lie_about_tree(monkeypatch, {path: HOOK})
    outcome = await syncs.pull()
    assert outcome.problem is None
    assert everything(syncs.here) == {*before, "result"}
    assert outcome.written == ["result"]


async def test_links_of_a_host_do_not_lead_out_of_the_folder(syncs, monkeypatch):
    """Each of two links may look as if it leads inside, and the second out through the first."""
    lie_about_tree(
        monkeypatch,
        {
            "a": b"link .",
            "b": b"link a/../../outside",
            "c": b"link ../outside",
            "d": b"link /etc/passwd",
            "e": b"link result",
        },
    )
    outcome = await syncs.pull()
    assert {path for path, _ in outcome.refused} == {"b", "c", "d"}
    assert (os.readlink(syncs.here / "a"), os.readlink(syncs.here / "e")) == (".", "result")


async def test_a_file_has_no_more_bytes_than_the_host_has_said(syncs, monkeypatch):
    lie_in_stream(
        monkeypatch,
        "for _ in range(3000): peer.send(bytes(1 << 16), data=1 << 16)",
    )
    outcome = await syncs.pull()
    assert "more than was asked for" in outcome.problem.message
    assert "result" not in everything(syncs.here)
    assert not [*syncs.here.glob(".jupyter-tpu-*")]


@pytest.mark.parametrize(
    "part",
    [
        "data=0", "data=1 << 32", "data='1'", "old=[0, 0]", "old=[-1, 1]", "old=[0, True]",
        "old=[0]", "old=5", "file=0", "hash=5, compressed=True",
    ],
)  # fmt: skip
async def test_parts_that_no_sender_makes_end_the_sync(syncs, monkeypatch, part):
    lie_in_stream(monkeypatch, f"for _ in range(3000): peer.send({part})")
    outcome = await syncs.pull()
    assert outcome.problem.reason is Reason.UNAVAILABLE
    assert everything(syncs.here) == {".git/hooks/sample", ".gitignore"}


async def test_old_parts_of_a_file_are_bounded_by_its_size_and_do_not_follow_links(
    syncs, monkeypatch, tmp_path
):
    """A part copies from the file that is here: it may be asked for again and again."""
    lie_in_stream(monkeypatch, "for _ in range(3000): peer.send(old=[0, 1 << 40])")
    outcome = await syncs.pull()
    assert "more than was asked for" in outcome.problem.message


@pytest.mark.parametrize(
    "answer",
    [
        "{'root': 1, 'tree': {}}",
        "{'root': '', 'tree': {'a': ['file x', 1, 1.0]}}",
        "{'root': '', 'tree': {'a': ['other', 1, 1.0]}}",
        "{'root': '', 'tree': {'a': ['file ' + '0' * 32 + chr(10), 1, 1.0]}}",
        "{'root': '', 'tree': {'a': ['file ' + '0' * 32, -1, 1.0]}}",
        "{'root': '', 'tree': {'a': ['file ' + '0' * 32, 1 << 40, 1.0]}}",
        "{'root': '', 'tree': {'a': ['file ' + '0' * 32, 10 ** 400, 1.0]}}",
        "{'root': '', 'tree': {'a': ['file ' + '0' * 32, 1, float('nan')]}}",
        "{'root': '', 'tree': {str(i): ['file ' + '0' * 32, 1, 1.0] for i in range(2000)}}",
        "{'root': '', 'tree': {chr(0xd800): ['file ' + '0' * 32, 1, 1.0]}}",
        "{'root': '', 'tree': [], 'skipped': 5}",
        "{'too_large': [1, 2, 3]}",
        "[]",
    ],
)
async def test_a_malformed_answer_is_one_clear_error(syncs, monkeypatch, answer):
    lie(monkeypatch, f"project.ProjectFolder.walk = lambda *_, **__: {answer}")
    outcome = await syncs.pull()
    assert outcome.problem.reason is Reason.UNAVAILABLE
    assert "invalid answer (The sync on host 0:" in outcome.problem.message
    assert everything(syncs.here) == {".git/hooks/sample", ".gitignore"}


async def test_any_time_of_a_file_can_be_shown(syncs, monkeypatch):
    tree = {".gitignore": ["file " + "0" * 32, 1, 1e308]}
    lie(monkeypatch, f"project.ProjectFolder.walk = lambda *_, **__: {{'tree': {tree!r}}}")
    ((_, _, there),) = (await syncs.pull()).conflicts
    assert there.time < 1 << 40


@pytest.mark.parametrize("bomb", ["answer", "deep", "stream", "head"])
async def test_little_that_is_unpacked_to_much_costs_no_memory(syncs, monkeypatch, bomb):
    """1.5 MB took 3.1 GB."""
    if bomb == "stream":
        lie_in_stream(monkeypatch, "for i in range(200): peer._writer.write(bytes(1 << 20))")
    elif bomb == "head":
        lie(
            monkeypatch,
            "def answer(value):\n"
            "    project.write_out(b'{\"size\": 1099511627776}\\n')\n"
            "    project.sys.stdout.buffer.flush()\n"
            "project.answer = answer",
        )
    else:
        text = {"answer": "b'\"' + b' ' * (200 << 20)", "deep": "b'[' * (20 << 20)"}[bomb]
        lie(
            monkeypatch,
            "def answer(value):\n"
            f"    data = project.zlib.compress({text}, 1)\n"
            "    project.write_out(b'{\"size\": %d}\\n' % len(data) + data)\n"
            "    project.sys.stdout.buffer.flush()\n"
            "project.answer = answer",
        )
    tracemalloc.start()
    outcome: HostOutcome = await syncs.pull()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "invalid answer" in outcome.problem.message
    if bomb in ("answer", "head"):
        assert "more than 33.6 MB" in outcome.problem.message
    assert peak < 100 * MIB


async def test_a_host_that_got_files_says_nothing_about_others(syncs, monkeypatch):
    """Which were carried out is counted, not named, so that it can't be another's."""
    write(syncs.here, a="1")
    lie(
        monkeypatch,
        "receive = project.ProjectFolder.receive\n"
        "def lying(self, **how):\n"
        "    answer = receive(self, **how)\n"
        "    answer['results'] += [None]\n"
        "    return answer\n"
        "project.ProjectFolder.receive = lying",
    )
    outcome = (await syncs.push()).hosts[0]
    assert "results of other changes" in outcome.problem.message
    assert outcome.written == []


async def test_a_host_names_only_files_that_it_was_asked_for(syncs, monkeypatch):
    lie(
        monkeypatch,
        "look_up = project.ProjectFolder.look_up\n"
        "def lying(self, *asked, **how):\n"
        "    answer = look_up(self, *asked, **how)\n"
        "    answer.get('tree', {})['invented'] = ['file ' + '0' * 32, 1, 1.0]\n"
        "    return answer\n"
        "project.ProjectFolder.look_up = lying",
    )
    write(syncs.here, a="1")
    outcome = (await syncs.push()).hosts[0]
    assert (outcome.problem, outcome.newer, outcome.written) == (None, [], [".gitignore", "a"])


async def test_a_signature_that_can_not_be_is_refused(syncs, monkeypatch):
    (syncs.here / "large").write_bytes(os.urandom(2 * MIB))
    await syncs.push()
    (syncs.here / "large").write_bytes(os.urandom(2 * MIB))
    one = {"size": 5, "head": [], "tail": ["0" * 32] * 40}
    lie(monkeypatch, f"project.ProjectFolder.signatures = lambda self, sizes: {{'large': {one!r}}}")
    outcome = (await syncs.push()).hosts[0]
    assert "a signature with other blocks" in outcome.problem.message


async def test_a_file_here_that_had_rights_of_another_kind_does_not_keep_them(syncs):
    """A program that runs as its owner must not get a host's content."""
    write(syncs.here, tool="1")
    await syncs.push()
    (syncs.here / "tool").chmod(0o6755)
    write(syncs.there(), tool="2")
    (syncs.there() / "tool").chmod(0o755)
    outcome = await syncs.pull(overwrite=True)
    assert "tool" in outcome.written
    assert (syncs.here / "tool").stat().st_mode & 0o7777 == 0o755


async def test_a_folder_that_becomes_a_link_meanwhile_is_not_followed(syncs, monkeypatch, tmp_path):
    """While a file's content comes, its folder is replaced by a link out of the project."""
    outside = tmp_path / "outside"
    outside.mkdir()
    write(syncs.there() / "sub", a="1")
    lie(
        monkeypatch,
        "import os\n"
        "send_file = changes.send_file\n"
        "def lying(peer, number, path, *more):\n"
        "    if path.endswith('sub/a'):\n"
        f"        os.rename({str(syncs.here / 'sub')!r}, {str(tmp_path / 'moved')!r})\n"
        f"        os.symlink({str(outside)!r}, {str(syncs.here / 'sub')!r})\n"
        "    send_file(peer, number, path, *more)\n"
        "changes.send_file = lying",
    )
    (syncs.here / "sub").mkdir()
    await syncs.pull()
    assert content(outside) == {}


async def test_no_rule_of_a_project_brings_git_s_own_folder_back(tmp_path):
    write(tmp_path, **{".gitignore": "*\n!.*\n!*/\n!.git\n!.git/**\n"})
    rules = ProjectRules(tmp_path)
    rules.read("")
    assert rules.leaves_out(".git/hooks/post-commit")
    assert not rules.leaves_out(".env")


@pytest.mark.parametrize(
    ("path", "target", "inside"),
    [
        ("a", "b", True),
        ("a", "b/c", True),
        ("d/a", "../b", True),
        ("d/a", "./../b/./c", True),
        ("d/e/a", "../../b", True),
        ("a", "..", False),
        ("d/a", "../../b", False),
        ("a", "b/../c", False),
        ("d/a", "/etc", False),
    ],
)
async def test_a_link_is_inside_if_it_goes_up_only_as_far_as_its_folder_is_deep(
    path, target, inside
):
    assert is_inside(path, target) is inside


async def test_names_that_people_have_are_safe():
    for path in (".gitignore", ".github/workflows/ci.yml", "git", "a.git/x", "ü/日本", "a b\n$(x)"):
        assert is_safe(path), path

"""What .gitignore leaves out, beside git itself."""

import itertools
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from jupyter_tpu.files.sync.ignore import ProjectRules
from jupyter_tpu.on_host.files.tree import Rules

NAMES = (
    "secret", "secret ", "secret\r", " secret", "secret\t", "a\x0cb", "a", "b", "x\u2028y", "x",
    "y", "s t", "#c", "!n", "sub/secret", "sub/deep/secret", "sub/deep/keep.py", "keep.py",
    "sub/keep.py", "ä", "x\x85y", "x\x1cy", "[x]",
)  # fmt: skip


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("git"):
        pytest.skip("git is not installed")
    folder = tmp_path_factory.mktemp("repository")
    subprocess.run(["git", "init", "-q", folder], check=True)
    for name in NAMES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("1")
    return folder


def ignored_by_git(folder: Path) -> set[str]:
    done = subprocess.run(
        ["git", "check-ignore", "-z", "--no-index", "--stdin"],
        input="\0".join(NAMES).encode(),
        cwd=folder,
        capture_output=True,
        check=False,
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull},
    )
    return set(filter(None, done.stdout.decode().split("\0")))


def left_out(folder: Path) -> set[str]:
    rules = ProjectRules(folder)
    for subfolder in ("", "sub/", "sub/deep/"):
        rules.read(subfolder)
    return {name for name in NAMES if rules.leaves_out(name)}


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfsecret\n", b"\xef\xbb\xbf# a comment\nsecret", b"secret\r\n",
        b"secret\r\n!secret\r\n", b"secret \r\n", b"secret\r", b"/secret\r\n", b"sub/\r\n",
        b"secret  \n", b"secret\\ \n", b" secret\n", b"secret\t\n", b"secret\x0b\n",
        b"\x0csecret\n", b"a\x0cb\n", b"a\rb\n", b"x\xe2\x80\xa8y\n", b"x\xc2\x85y\n", b"x\x1cy\n",
        b"\\#c\n\\!n\n", b"#c\n!n\n", b"\t\n   \n\\\n", b"secret\\\n", b"*\n!sub/\n",
        b"*\r\n!sub/\r\n!*.py\r\n", b"*\n!*/\n!*.py\n", b"/*\n!/sub\n",
        b"/*\n!/sub/\n/sub/*\n!/sub/deep\n", b"*\n!sub/\n!sub/**\n",
        b"sub/**\n!sub/deep/\n!sub/deep/keep.py\n", b"sub/*\n!sub/deep\n", b"sub/**/\n", b"**/\n",
        b"**\n!**/\n!keep.py\n", b"sub/**/secret\n", b"*.py\n!keep.py\n", b"**/secret\n!/secret\n",
        b"deep/\n!sub/deep/keep.py\n", b"!secret\nsecret\n", b"\xc3\xa4\r\n", b"\\[x]\n", b"[\n",
        b"/\n",
    ],
)  # fmt: skip
def test_a_gitignore_means_what_it_means_to_git(repository, content):
    (repository / ".gitignore").write_bytes(content)
    assert left_out(repository) == ignored_by_git(repository)


LINES = (
    "*", "/*", "!*/", "sub/", "!sub/", "!sub", "sub/*", "!*.py", "secret", "!secret", "deep/", "**",
)  # fmt: skip


@pytest.mark.parametrize("first", LINES)
def test_any_order_of_rules_means_what_it_means_to_git(repository, first):
    orders = [*itertools.permutations(LINES, 2)]
    for order in [(first, *more) for more in orders if first not in more][::7]:
        (repository / ".gitignore").write_text("\r\n".join(order))
        assert left_out(repository) == ignored_by_git(repository), order


def test_a_gitignore_below_counts_for_its_folder(repository):
    (repository / ".gitignore").write_bytes(b"*\n!*/\n!*.py\n")
    (repository / "sub/.gitignore").write_bytes(b"\xef\xbb\xbf!secret\r\ndeep/\r\n")
    try:
        assert left_out(repository) == ignored_by_git(repository)
        assert "sub/secret" not in left_out(repository)
    finally:
        (repository / "sub/.gitignore").unlink()


@pytest.mark.parametrize(
    "content", ["sub/\n", "/sub\n", "deep\n", "*\n", "secret\n", "sub/deep/s*"]
)
def test_a_project_in_a_folder_of_the_repository_is_left_out_as_by_git(repository, content):
    (repository / ".gitignore").write_text(content)
    rules = ProjectRules(repository / "sub" / "deep")
    rules.read("")
    below = {name for name in ("secret", "keep.py") if rules.leaves_out(name)}
    assert {f"sub/deep/{name}" for name in below} == {
        name for name in ignored_by_git(repository) if name.startswith("sub/deep/")
    }


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-8-sig"])
def test_what_powershell_wrote_is_left_out_though_git_does_not_read_it(tmp_path, encoding):
    mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
    (tmp_path / ".gitignore").write_bytes(mark + "secret\r\n".encode(encoding))
    rules = ProjectRules(tmp_path)
    rules.read("")
    assert rules.leaves_out("secret")
    assert not rules.leaves_out("other")


def test_the_host_reads_the_same_rules(tmp_path):
    (tmp_path / ".gitignore").write_bytes(b"*\n!*/\n!*.py\n")
    rules = ProjectRules(tmp_path)
    rules.read("")
    there = Rules(rules.rules)
    for path in ("a", "sub/", "sub/a", "sub/a.py", ".git/", ".git/x.py"):
        assert there.ignore(path) == rules.ignore(path), path

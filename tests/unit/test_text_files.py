"""Files that people write: byte order marks, line ends of Windows, form feeds, and requirements."""

from pathlib import Path

import click
import pytest

from jupyter_tpu.commands.job_text import variables
from jupyter_tpu.environment.requirement_lines import check_requirement_lines, is_local
from jupyter_tpu.errors import InvalidInput, Reason, TPUError
from jupyter_tpu.fleet.core.checks import check_environment
from jupyter_tpu.fleet.lifecycle.defaults import EnvironmentDefaults
from jupyter_tpu.fleet.models import ConnectTPU
from jupyter_tpu.terminal.environment_options import Content, content_options
from jupyter_tpu.terminal.field_options import read_text
from jupyter_tpu.terminal.grammar import Command

MARKS = {"utf-8-sig": b"", "utf-16": b"", "utf-16-be": b"\xfe\xff"}


@click.command("connect", cls=Command)
@content_options()
def command(content: Content) -> ConnectTPU:
    return content.request("default")


def request(**options: str) -> ConnectTPU:
    """What the options of `connect` ask for."""
    words = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    with command.make_context("connect", words) as context:
        result: ConnectTPU = command.invoke(context)
    return result


def written(path: Path, text: str, encoding: str = "utf-8-sig") -> str:
    path.write_bytes(MARKS.get(encoding, b"") + text.encode(encoding))
    return str(path)


@pytest.mark.parametrize("encoding", MARKS)
def test_a_byte_order_mark_and_line_ends_of_windows_are_no_part_of_a_text(tmp_path, encoding):
    text = "#!/bin/sh\r\necho ä\r\n"
    path = written(tmp_path / "file", text, encoding)
    assert read_text(path) == "#!/bin/sh\necho ä\n"
    assert request(setup_script=path).setup.script == "#!/bin/sh\necho ä\n"
    defaults = EnvironmentDefaults(setup_script=path)
    assert defaults.added_to(ConnectTPU()).setup.script == "#!/bin/sh\necho ä\n"
    connect = request(requirements=written(tmp_path / "r.txt", "flax\r\noptax\r\n", encoding))
    assert connect.requirements == "flax\noptax"
    assert request(lock=written(tmp_path / "l.txt", "flax==1\r\n", encoding)).lock == "flax==1"
    project = written(tmp_path / "pyproject.toml", '[project]\r\ndependencies=["einops"]', encoding)
    assert request(pyproject=project).packages == ["einops"]
    file = written(tmp_path / ".env", "A=1\r\nexport B='2 3'\r\n", encoding)
    assert variables(file, []) == {"A": "1", "B": "2 3"}


def test_only_a_newline_ends_a_line_of_an_env_file(tmp_path):
    path = written(tmp_path / ".env", "A=x\x0cy\nB=x\u2028y\x85z\nC=1")
    assert variables(path, []) == {"A": "x\x0cy", "B": "x\u2028y\x85z", "C": "1"}


@pytest.mark.parametrize(
    "read", [lambda path: variables(path, []), lambda path: request(requirements=path)]
)
def test_what_is_no_text_is_refused(tmp_path, read):
    (tmp_path / "file").write_bytes(b"\x80\x81")
    with pytest.raises(TPUError, match="is not a text file"):
        read(str(tmp_path / "file"))


def test_requirements_of_other_files_are_read_from_where_they_are_named(tmp_path):
    (tmp_path / "sub").mkdir()
    written(tmp_path / "sub/more.txt", "optax  # for training\r\n-r even/deeper.txt\r\n")
    (tmp_path / "sub/even").mkdir()
    written(tmp_path / "sub/even/deeper.txt", "einops>=0.8 ; python_version > '3.8'")
    written(tmp_path / "base.txt", "--index-url https://example.com/simple\nchex\n")
    path = written(
        tmp_path / "requirements.txt",
        "flax \\\n  ==0.12 \\\n  --hash=sha256:0\n\x0c\n-r sub/more.txt\n--requirement=base.txt\n"
        "-r https://example.com/r.txt\n",
    )
    lines = [line.strip() for line in (request(requirements=path).requirements or "").splitlines()]
    assert [line for line in lines if line] == [
        "flax   ==0.12   --hash=sha256:0",
        "optax  # for training",
        "einops>=0.8 ; python_version > '3.8'",
        "--index-url https://example.com/simple",
        "chex",
        "-r https://example.com/r.txt",
    ]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("-c constraints.txt", "is not possible here"),
        ("--constraint=constraints.txt", "is not possible here"),
        ("-e .", "needs a folder of the host"),
        ("-e.", "needs a folder of the host"),
        ("--editable ../lib[dev]", "needs a folder of the host"),
        (".", "is a file or folder of this computer"),
        ("./lib", "is a file or folder of this computer"),
        ("wheels/x-1.0-py3-none-any.whl", "is a file or folder of this computer"),
        ("x-1.0.tar.gz", "is a file or folder of this computer"),
        ("x @ file:///tmp/x.whl", "is a file or folder of this computer"),
        ("x[a,b]@ ./x", "is a file or folder of this computer"),
        ("C:\\x.whl", "is a file or folder of this computer"),
        ("git+file:///tmp/x", "is a file or folder of this computer"),
        ("-f wheels", "is a file or folder of this computer"),
        ("--find-links=./wheels", "is a file or folder of this computer"),
        ("-r missing.txt", "can't be read: No such file"),
        ("-r requirements.txt", "includes itself"),
    ],
)
def test_what_only_this_computer_has_is_refused_by_name_and_line(tmp_path, line, why):
    """Before a host is touched, so that no environment is there that failed."""
    path = written(tmp_path / "requirements.txt", f"flax\n\noptax \\\n>=0.2\n{line}  # mine\n")
    with pytest.raises(InvalidInput) as refused:
        request(requirements=path)
    assert why in refused.value.message
    assert path in refused.value.message
    if "itself" not in why:
        assert "line 5: " in refused.value.message
    with pytest.raises(InvalidInput):
        request(lock=path)


@pytest.mark.parametrize("line", ["-r other.txt", "-c other.txt", "-e .", "./x"])
def test_a_server_that_has_no_files_of_the_user_refuses_them_by_line(line):
    with pytest.raises(InvalidInput, match="The requirements file, line 2: ") as refused:
        check_environment(ConnectTPU(requirements=f"flax\n{line}\n"))
    assert refused.value.reason is Reason.INVALID
    with pytest.raises(InvalidInput, match="The lock file, line 1: "):
        check_environment(ConnectTPU(lock=line))


def test_a_dependency_of_a_pyproject_that_is_a_folder_is_refused(tmp_path):
    project = '[project]\ndependencies = ["flax", "x @ file:///home/me/x"]'
    with pytest.raises(InvalidInput, match="x @ file:///home/me/x is a file or folder"):
        request(pyproject=written(tmp_path / "pyproject.toml", project))


OWN = "https://download.pytorch.org/whl/cpu"
UV = f"""
[project]
requires-python = ">=3.11,<3.13"
dependencies = [
  "torch>=2", "flax", "Git_one[all] ; sys_platform == 'linux'", "mac",
  "jax<0.5 ; python_version<'3.12'", "jax>=0.5 ; python_version>='3.12'",
]
[tool.uv]
package = false
[tool.uv.sources]
torch = {{ index = "own" }}
git-one = {{ git = "https://github.com/a/b", tag = "v1", subdirectory = "c" }}
mac = [
  {{ path = "../mac", marker = "sys_platform == 'darwin'" }},
  {{ url = "https://example.com/mac-1.whl", marker = "sys_platform != 'darwin'" }},
]
[[tool.uv.index]]
name = "own"
url = "{OWN}"
explicit = true
[[tool.uv.index]]
url = "https://example.com/simple"
"""


def test_a_pyproject_says_where_its_packages_come_from_and_for_which_python(tmp_path):
    """Shown before: another package of the same name, from PyPI, and Python 3.14."""
    project = written(tmp_path / "pyproject.toml", UV)
    connect = request(pyproject=project)
    check_environment(connect)
    assert connect.packages == [
        f"torch>=2  # --index-url {OWN}",
        "flax",
        "Git_one[all] @ git+https://github.com/a/b@v1#subdirectory=c ; sys_platform == 'linux'",
        "mac @ https://example.com/mac-1.whl",
        "jax<0.5 ; python_version<'3.12'",
        "jax>=0.5 ; python_version>='3.12'",
    ]
    assert connect.python == ">=3.11,<3.13"
    assert connect.requirements == "--extra-index-url https://example.com/simple"
    assert request(pyproject=project, python="3.12").python == "3.12"
    with pytest.raises(InvalidInput, match=r">=3\.11,<3\.13, so --python 3\.13 is not"):
        request(pyproject=project, python="3.13")
    (tmp_path / "uv.toml").write_text('index-url = "https://example.com/other"')
    with pytest.raises(InvalidInput, match="takes torch from a place that hosts do not have"):
        request(pyproject=project)  # as uv: its indexes are those of uv.toml


@pytest.mark.parametrize(
    ("project", "sentence"),
    [
        ("[tool.poetry.dependencies]\nflax = '*'", "which only Poetry reads"),
        ("[tool.black]", "has no \\[project\\]"),
        ('[project]\ndynamic = ["dependencies"]', "they are dynamic"),
        ("[project]\n[tool.uv]\noverride-dependencies=['x']", "sets override-dependencies for uv"),
        ("[project]\n[[tool.pdm.source]]\nurl='x'", "which only pdm reads"),
        ("[project]\n[[tool.uv.index]]\nurl='./wheels'", "hosts can't use: ./wheels"),
        ("[project]\ndependencies=['a']\n[tool.uv.sources]\na={workspace=true}", "takes a from"),
        (
            "[project]\ndependencies=['a']\n[tool.uv.sources]\n"
            "a=[{git='https://x/y',marker=\"python_version<'3.12'\"}]",
            "is known on the hosts only",
        ),
        ("[project]\nrequires-python='<3.11'", "JAX needs Python 3.11 or newer"),
    ],
)
def test_what_hosts_can_not_follow_in_a_pyproject_is_refused_by_name(tmp_path, project, sentence):
    with pytest.raises(InvalidInput, match=sentence):
        check_environment(request(pyproject=written(tmp_path / "pyproject.toml", project)))


def test_packages_and_addresses_pass():
    lines = [
        "flax", "optax>=0.2,<1", "jax[tpu]==0.9", "a.b_c-d", "x ; sys_platform != 'win32'",
        "x @ https://example.com/x-1.0.tar.gz", "git+https://github.com/a/b@main#egg=b",
        "https://user:word@example.com/a/b-1.0.whl", "--extra-index-url https://example.com/a/b",
        "-i https://example.com", "--pre", "--hash=sha256:0", "-f https://example.com/wheels",
        "x @ git+ssh://git@github.com/a/b.git", "# -e .", "   ", "x --config-settings a=./b",
    ]  # fmt: skip
    check_requirement_lines("\n".join(lines), "It")
    assert not any(map(is_local, lines[:8]))

"""What is sent to hosts: small, the same everywhere, and able to run on an old Python."""

import ast
import io
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

from other_pythons import python_of

import jupyter_tpu.on_host.agent
from jupyter_tpu.on_host.packing import PACKAGE, agent_bundle, without_comments

AGENT = Path(jupyter_tpu.on_host.agent.__file__).parent
ON_HOST = AGENT.parent
SOURCES = sorted(AGENT.rglob("*.py"))


def test_the_bundle_is_smaller_than_a_picture():
    # With the pod kernel, sessions, servers and home folders it is 170 kB: 1.4 seconds on a thin
    # line (1 Mbit/s).
    assert len(agent_bundle().data) < 176_000, "it is sent over thin lines"


def test_only_comments_and_types_are_left_out_and_lines_keep_their_numbers():
    documented = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
    for path in SOURCES:
        source = path.read_text()
        lean = without_comments(source)
        assert len(lean.splitlines()) == len(source.splitlines()), path
        assert "#: " not in lean, path
        code = ast.parse(source)
        for node in ast.walk(code):
            if isinstance(node, documented) and ast.get_docstring(node) is not None:
                node.body[0].value = ast.Constant("")
        _untyped(code)
        sent = ast.parse(lean)
        assert not [node for node in ast.walk(sent) if getattr(node, "returns", None)], path
        _untyped(sent)  # of some arguments, if they take several lines
        assert ast.dump(sent) == ast.dump(code), path
        assert _numbers(sent) == _numbers(code), path


def _untyped(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None


def _numbers(tree):
    """The line of each statement."""
    return [node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt)]


def test_text_that_only_looks_like_a_comment_stays():
    text = 'x = "# no comment"\ny = """\n# none\n"""\n'
    assert without_comments(text) == text
    source = 'x = 1  # one\n\n\ndef f():\n    """What\n    it does."""\n'
    assert without_comments(source) == 'x = 1\n\n\ndef f():\n ""\n\n'


def test_the_bundle_is_the_same_for_the_same_sources():
    first = agent_bundle()
    agent_bundle.cache_clear()
    assert (agent_bundle().hash, agent_bundle().data) == (first.hash, first.data)


def test_the_bundle_has_all_the_agent_under_a_name_of_its_own():
    packed = io.BytesIO(zlib.decompress(agent_bundle().data))
    names = set(zipfile.ZipFile(packed).namelist())
    modules = {path.relative_to(AGENT).as_posix() for path in SOURCES}
    assert names == {
        "__main__.py",
        f"{PACKAGE}/__init__.py",
        *(f"{PACKAGE}/agent/{name}" for name in modules),
    }


#: What an environment's Python has; the host's own needs none of it.
OTHERS = {
    "agent/keeper/ipython_kernel.py": {"ipykernel", "zmq"},
    "agent/keeper/pod_member.py": {"jax", "numpy"},
    "agent/pod/sockets.py": {"zmq"},
    "agent/session/hosts.py": {"jax"},
    "agent/session/arrays.py": {"jax", "ml_dtypes", "numpy", "tensorstore"},
    "agent/session/pickling.py": {"cloudpickle"},
    "agent/session/placement.py": {"numpy"},
    "agent/session/plain.py": {"numpy"},
    "agent/session/rebuild.py": {"jax"},
    "agent/session/session.py": {"jax"},
    "agent/session/storage.py": {"tensorstore"},
    "environments/notebook.py": {"IPython"},
    "in_environment/ask_kernel.py": {"jupyter_client"},
    "in_environment/join_pod.py": {"jax", "numpy"},
    "in_environment/verify.py": {"ipykernel", "jax", "packaging", "zmq"},
    "variables/codec.py": {"cloudpickle", "jax", "ml_dtypes", "numpy"},
    "variables/frames.py": {"pandas"},
    "variables/kernel.py": {"IPython", "jax", "numpy"},
}


def test_what_runs_on_hosts_is_python_3_8_and_imports_the_standard_library_alone():
    for path in sorted(ON_HOST.rglob("*.py")):
        tree = ast.parse(path.read_text(), feature_version=(3, 8))
        imported = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                imported.add(node.module.split(".")[0])
            elif isinstance(node, ast.Import):
                imported |= {alias.name.split(".")[0] for alias in node.names}
        others = imported - sys.stdlib_module_names
        assert others == OTHERS.get(path.relative_to(ON_HOST).as_posix(), set()), path


def test_the_oldest_python_imports_all_of_it():
    code = f"""
import importlib, sys
sys.path.insert(0, {str(ON_HOST.parent)!r})
for name in sys.argv[1:]:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != "zmq":
            raise
"""
    names = [
        ".".join(["on_host", *path.relative_to(ON_HOST).with_suffix("").parts])
        for path in sorted(ON_HOST.rglob("*.py"))
        if path.name[:2] != "__"
    ]
    done = subprocess.run(
        [python_of("3.8"), "-I", "-S", "-c", code, *names], capture_output=True, text=True
    )
    assert (done.stderr, done.returncode) == ("", 0)

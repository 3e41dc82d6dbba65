"""What was asked for is imported in the environment's own Python, and what fails is explained."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jupyter_tpu.environment.imports import FailedImport, asked_for, failure
from jupyter_tpu.on_host.environments import imports

#: name: (what it requires, {file: text}). `builder` is as flax 0.12.8 is beside a newer JAX.
PACKAGES = {
    "newlib": ([], {"newlib/__init__.py": "", "newlib/deep.py": ""}),
    "builder": (
        ["jax>=0.9", "newlib"],
        {
            "builder/__init__.py": "print('loud')",
            "builder/nnx/__init__.py": "import newlib.deep as deep\nclass New(deep.Thing): ...",
            "builder/extra/__init__.py": "import not_installed",
            "builder/screen/__init__.py": "raise OSError('no display')",
            "builder/tests/__init__.py": "raise AssertionError('for its authors')",
            "builder/gone/__init__.py": "import newlib.gone",
        },
    ),
    "plain": ([], {"plain/__init__.py": "", "plain/nnx/__init__.py": "import newlib.gone"}),
    "user": (["builder"], {"user.py": "from builder.nnx import New"}),
    "needy": ([], {"needy.py": "import pkg_gone.part"}),
    "ends": ([], {"ends.py": "import os; os._exit(7)"}),
    "exits": ([], {"exits.py": "raise SystemExit('not here')"}),
    "name-space": ([], {"name/space/__init__.py": "", "examples/toy/__init__.py": "1/0"}),
    "slow": ([], {"slow.py": "import time; time.sleep(60)"}),
}


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with these packages, each of version 1.0."""
    folder = tmp_path_factory.mktemp("imports") / "env"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    [site] = folder.glob("lib/python3*/site-packages")
    for name, (requires, files) in PACKAGES.items():
        info = f"{name.replace('-', '_')}-1.0.dist-info"
        head = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0"]
        metadata = "\n".join([*head, *(f"Requires-Dist: {line}" for line in requires), ""])
        record = "".join(f"{path},,\n" for path in [*files, f"{info}/METADATA", f"{info}/RECORD"])
        for path, text in {
            **files,
            f"{info}/METADATA": metadata,
            f"{info}/RECORD": record,
        }.items():
            (site / path).parent.mkdir(parents=True, exist_ok=True)
            (site / path).write_text(text)
    return folder


@pytest.fixture
def failed(environment: Path) -> Callable[..., list[dict[str, Any]]]:
    def failed(*asked: str, locked: tuple[str, ...] = ()) -> list[dict[str, Any]]:
        python = ([str(environment / "bin" / "python"), "-I"], dict(os.environ))
        return imports.failed_imports(str(environment), python, asked, locked)

    return failed


def test_a_part_that_misses_something_in_another_package_is_named_with_both_versions(
    failed, capsys
):
    by_module = {each["module"]: each for each in failed("Builder[all]>=0.9", "name.space")}
    assert by_module.keys() == {"builder.nnx", "builder.gone"}
    assert by_module["builder.nnx"] == {
        "package": "builder",
        "version": "1.0",
        "module": "builder.nnx",
        "error": "AttributeError: module 'newlib.deep' has no attribute 'Thing'",
        "by": ["builder", "1.0"],
        "of": ["newlib", "1.0"],
    }
    assert by_module["builder.gone"]["of"] == ["newlib", "1.0"]
    printed = capsys.readouterr().out
    assert "class New(deep.Thing)" in printed, "the log has the traceback"
    assert "loud" not in printed


def test_parts_are_imported_of_packages_only_that_build_on_jax(failed):
    assert failed("plain", "name-space", "not-there", "https://example.org/x.whl") == []


def test_what_ends_python_is_named_and_the_rest_is_imported_all_the_same(failed):
    found = failed("exits", "ends", "needy", "user")
    assert [(each["module"], each["error"]) for each in found] == [
        ("exits", "SystemExit: not here"),
        ("ends", "Python ended with status 7"),
        ("needy", "ModuleNotFoundError: No module named 'pkg_gone'"),
        ("user", "AttributeError: module 'newlib.deep' has no attribute 'Thing'"),
    ]
    assert found[2]["missing"] == "pkg_gone"
    assert (found[3]["by"], found[3]["of"]) == (["builder", "1.0"], ["newlib", "1.0"])


def test_an_import_that_never_ends_is_named_after_its_time(failed, monkeypatch):
    monkeypatch.setattr(imports, "IMPORT_SECONDS", 2)
    [found] = failed("slow", "needy")
    assert (found["package"], found["error"]) == ("slow", "the import takes longer than 2 s")


def test_of_a_lock_only_what_nothing_else_needs_is_imported(failed):
    locked = ("newlib==1.0", "builder==1.0", "user==1.0", "name-space==1.0")
    assert [each["package"] for each in failed(locked=locked)] == ["user"]


@pytest.mark.parametrize(
    ("found", "message", "hint"),
    [
        (
            {"by": ["flax", "0.12.8"], "of": ["jax", "0.12.0"], "error": "AttributeError: x."},
            "flax 0.12.8 does not work with jax 0.12.0: `import a.b` fails on host 1 with "
            "AttributeError: x.",
            "Ask for flax>0.12.8 instead of Flax == 0.12.8, or for an older jax.",
        ),
        (
            {"missing": "pkg.part", "error": "ModuleNotFoundError: y"},
            "a 1.0 can't be used: `import a.b` fails on host 1 with ModuleNotFoundError: y.",
            "Add the package that has the module pkg, and connect again.",
        ),
        (
            {"error": "ImportError: libGL.so.1: cannot open shared object file"},
            "a 1.0 can't be used: `import a.b` fails on host 1 with ImportError: libGL.so.1: "
            "cannot open shared object file.",
            "Add the package of apt that has this library (--apt), and connect again.",
        ),
    ],
)
def test_each_failure_is_a_sentence_with_what_to_do(found, message, hint):
    known = {"package": "a", "version": "1.0", "module": "a.b", **found}
    asked = asked_for(["Flax == 0.12.8"], "--index-url https://x\n# no package\nanother\n")
    assert asked == ["Flax == 0.12.8", "another"]
    error = failure([msgspec.convert(known, FailedImport)], 1, asked)
    assert error is not None
    assert (error.message, error.hint) == (message, hint)
    assert failure([], 0) is None

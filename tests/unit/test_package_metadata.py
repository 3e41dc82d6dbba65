"""What pyproject.toml says of the package, beside what the package does."""

import ast
import functools
import itertools
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
#: Imported where somebody has it: by a caller that passes its tensors or frames; with `jax[tpu]`.
WHOEVER_HAS_IT = {"libtpu", "ml_dtypes", "pandas", "tensorstore", "torch"}


@functools.cache
def imported_by(module: str) -> list[tuple[str, str]]:
    """(imported name, file) of what the package's files import from elsewhere."""
    imported = []
    for file in sorted((ROOT / module).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                imported += [(alias.name, str(file)) for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.append((node.module, str(file)))
    return imported


owners = functools.cache(packages_distributions)


def declared(*extras: str) -> set[str]:
    """The names of the dependencies and of those of *extras*."""
    groups = [PROJECT["dependencies"], *(EXTRAS[extra] for extra in extras)]
    words = [re.match(r"[\w.-]+", line) for group in groups for line in group]
    return {normal(word[0]) for word in words if word}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def undeclared(folder: str, known: set[str], *extras: str) -> dict[str, str]:
    """What the files of *folder* import that neither is *known* nor declared: module and file."""
    names = declared(*extras)
    missing: dict[str, str] = {}
    for name, file in imported_by(folder):
        top = name.partition(".")[0]
        if top in sys.stdlib_module_names | WHOEVER_HAS_IT | {"jupyter_tpu", "google"} | known:
            continue
        if names.isdisjoint(map(normal, owners().get(top, (top,)))):
            missing[top] = file
    return missing


def test_whatever_is_imported_is_declared():
    assert undeclared("jupyter_tpu", set(), "jax", "mcp") == {}


@pytest.mark.parametrize("folder", ["tests", "scripts"])
def test_whatever_tests_and_scripts_import_is_declared(folder):
    folders = ("tests", "scripts", "benchmarks")
    ours = {file.stem for name in folders for file in (ROOT / name).rglob("*.py")}
    assert undeclared(folder, ours, "jax", "dev", "docs", "test") == {}


def test_every_part_of_googles_namespace_that_is_imported_is_declared():
    parts = {
        "google.api_core": "google-api-core",
        "google.auth": "google-auth",
        "google.cloud": "google-cloud-tpu",
        "google.longrunning": "googleapis-common-protos",
        "google.oauth2": "google-auth",
        "google.protobuf": "protobuf",
        "google.rpc": "googleapis-common-protos",
    }
    used = {
        ".".join(name.split(".")[:2])
        for name, _ in imported_by("jupyter_tpu")
        if name.startswith("google.")
    }
    assert used <= parts.keys()
    assert {parts[part] for part in used} <= declared()


def test_every_dependency_has_a_lower_bound():
    lines = [*PROJECT["dependencies"], *itertools.chain(*EXTRAS.values())]
    assert [line for line in lines if ">=" not in line] == []


def test_the_readme_has_no_link_that_works_only_on_github():
    text = (ROOT / "README.md").read_text()
    links = re.findall(r"\]\(([^)\s]+)\)|\bsrc=\"([^\"]+)|\bhref=\"([^\"]+)", text)
    urls = ["".join(groups) for groups in links]
    assert len(urls) > 5
    assert [link for link in urls if not link.startswith("https://")] == []


def test_the_readmes_links_to_files_of_the_project_lead_to_files():
    text = (ROOT / "README.md").read_text()
    paths = re.findall(r"jupyter-tpu/jupyter-tpu/(?:blob/)?main/([^)\s]+)", text)
    assert len(paths) > 5
    assert [path for path in paths if not (ROOT / path).is_file()] == []

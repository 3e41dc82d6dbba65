"""Each test of this suite asserts something: by itself, or by what it calls of our own modules."""

import ast
import functools
import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
TEST = re.compile(r"^( *)(?:async )?def (test_\w+)\(", re.MULTILINE)
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
#: What a test that asserts has in its text. Most have it, and need no closer look.
ASSERTS = re.compile(r"\bassert\b|\braises\(|\bwarns\(|\bexpect\(|\bAssertionError\b")


def candidates(text: str) -> set[str]:
    """The names of a file's tests that may assert nothing, quickly."""
    tests = [*TEST.finditer(text)]
    ends = [*(test.start() for test in tests[1:]), len(text)]
    spans = zip(tests, ends, strict=False)  # a file may have no tests of its own
    return {test[2] for test, end in spans if not ASSERTS.search(text, test.end(), end)}


@functools.cache
def modules() -> dict[str, Path]:
    """The tests' own modules, without conftest."""
    files = (file for file in TESTS.rglob("*.py") if not file.stem.startswith("test_"))
    return {file.stem: file for file in files if file.stem != "conftest"}


def calls(function: ast.AST) -> set[str]:
    """The names of the functions and methods that it calls or hands on."""
    nodes = list(ast.walk(function))
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return names | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


@functools.cache
def asserting(file: Path) -> frozenset[str]:
    """The functions, methods and fixtures by which a test of *file* asserts."""
    text = file.read_text(encoding="utf-8")
    tree, lines = ast.parse(text), text.splitlines()
    imported = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    files = {modules()[module] for module in imported & modules().keys()}
    if file.stem.startswith("test_"):
        files |= {folder / "conftest.py" for folder in (TESTS, file.parent)}
    names = {name for other in files if other.exists() for name in asserting(other)}
    functions = [node for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]
    pending = {node.name: node for node in functions if not node.name.startswith("test_")}

    def asserts(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
        body = "\n".join(lines[node.lineno : node.end_lineno])
        return bool(ASSERTS.search(body) or calls(node) & names)

    while True:
        more = {name for name, node in pending.items() if asserts(node)}
        if not more:
            return frozenset(names)
        names |= more
        for name in more:
            del pending[name]


def test_every_test_asserts_something():
    silent = []
    for file in TESTS.rglob("test_*.py"):
        text = file.read_text(encoding="utf-8")
        names = candidates(text)
        silent += [
            f"{file.relative_to(TESTS)}::{node.name}"
            for node in (ast.walk(ast.parse(text)) if names else ())
            if isinstance(node, FUNCTIONS) and node.name in names
            if not calls(node) & asserting(file)
        ]
    assert silent == []

"""Names: a reader greps for a word and finds one thing, and a constant says what it is of."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path

TOP = Path(__file__).parents[2]
PACKAGE = TOP / "jupyter_tpu"
#: Words that say nothing without a subject and a unit: LONGEST_LINE_BYTES, ANSWER_SECONDS.
BARE = re.compile(
    "_?(AGAIN|ALL|ANSWER|ASK|BATCH|CHECK|CHUNK|CLOSED|DEPTH|END|ENDING|ENOUGH|EVERY|FEW|FRESH|FULL|"
    "GRACE|HOLD|IDLE|JOIN|KEPT|KNOWN|LARGE|LARGEST|LATE|LATEST|LEAST|LEFT|LIMIT|LINES|LINGER|LISTED|"
    "LONGEST|LOOK|LOW|MOST|NAMED|NEAR|NOTICE|OLD|PATIENCE|PAUSE|PIECE|QUICK|QUIET|REACH|RECENT|"
    "REMEMBERED|RETRY|SETTLED|SHORT|SHOWN|SLOW|SMALL|SOON|SPACE|STALE|TAIL|TIME|TIMEOUT|TURN|VALID|"
    "WAIT|WATCH|WIDE|WINDOW)"
)
#: Who may say "worker", and of what.
WORKERS = {
    "emulator/": "answers as Google, which says so",
    "jaxkit/rest/": "processes that answer requests",
    "server/jax.py": "the same processes",
    "on_host/agent/protocol/requests.py": "fields of requests",
    "on_host/agent/metrics/grpc_calls.py": "HTTP/2",
    "kernel_place.py": "a field of kernelspecs",
    "kernels/": "the same field",
}
#: A comment or docstring without a noun: "Of the TPU." instead of "The TPU's zone."
NO_NOUN = re.compile(r'^.*(?:#:?|"{3}) ?Of .*$', re.MULTILINE)
#: HTTP/2's frame of this name is no number of anything.
FRAMES = {("on_host/agent/metrics/grpc_calls.py", "_WINDOW")}


@cache
def modules() -> dict[str, ast.Module]:
    """All modules of the package, by their paths in it."""
    paths = (path for path in PACKAGE.rglob("*.py") if path.name != "_version.py")
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in paths}


def definitions(tree: ast.AST) -> Iterator[str]:
    """The names that are given in a module: of functions, classes, parameters and variables."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


def constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    """The names and values that a module assigns, also several in one line."""
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            pairs = [(node.target, node.value)]
        elif isinstance(node, ast.Assign):
            pairs = [(target, node.value) for target in node.targets]
        else:
            continue
        for target, value in pairs:
            several = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            parts = zip(target.elts, value.elts, strict=True) if several else [(target, value)]
            yield from ((part.id, its) for part, its in parts if isinstance(part, ast.Name))


def is_number(value: ast.expr) -> bool:
    """Whether it is computed from numbers alone, and maybe other constants."""
    of_numbers = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Name, ast.operator, ast.unaryop)
    nodes = [node for node in ast.walk(value) if not isinstance(node, ast.Load)]
    figures = [type(node.value) in (int, float) for node in nodes if isinstance(node, ast.Constant)]
    return all(isinstance(node, of_numbers) for node in nodes) and any(figures) and all(figures)


def test_a_class_name_stands_for_one_class():
    places: dict[str, list[str]] = {}
    for path, tree in modules().items():
        bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.If))]
        for node in chain.from_iterable(bodies):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(path)
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}


def test_a_number_says_what_it_is_of():
    bare = [
        (path, name)
        for path, tree in modules().items()
        for name, value in constants(tree)
        if BARE.fullmatch(name) and is_number(value)
    ]
    assert set(bare) == FRAMES


def test_comments_and_docstrings_begin_with_what_they_are_about():
    folders = "jupyter_tpu", "tests", "scripts", "benchmarks"
    files = [path for folder in folders for path in (TOP / folder).rglob("*.py")]
    assert len(files) > 1000
    found = {path.name: NO_NOUN.findall(path.read_text()) for path in files}
    assert {name: lines for name, lines in found.items() if lines} == {}


def test_a_host_is_not_called_a_worker():
    named = {
        path: [name for name in definitions(tree) if "worker" in name.lower()]
        for path, tree in modules().items()
        if not path.startswith(tuple(WORKERS))
    }
    assert {path: names for path, names in named.items() if names} == {}

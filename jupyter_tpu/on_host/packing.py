"""How what stands in this package comes to a host: as a program that runs there, or as files.

A program is a module of this package with a function ``main``, and the modules that it imports. All
are sent in one piece, and imported there by their names in the package `PACKAGE`. Nothing is left
on the host. `BOOT` reads a program from its standard input (:func:`program`); what follows is the
program's own input. ``__main__.program`` has it, for another process or host. Where the input is
somebody else's, a program is an argument (:func:`argument`); for a kernel it is a :func:`cell`.

Files are a :class:`Bundle`: those of the agent stay on the host, in a folder named by their hash.

Documentation, comments and the types of functions are left out: with them a program would not fit
into the first packets of an idle line.
"""

import ast
import base64
import hashlib
import json
import os
import zlib
from functools import cached_property, lru_cache
from typing import Callable, Dict, Iterator, List, Set, Tuple

from .calls.archive import zipped

#: The name of this package on a host, which may have jupyter_tpu itself installed.
PACKAGE = "jupyter_tpu_on_host"

_TOP = os.path.dirname(os.path.abspath(__file__))
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: The main module of the folder or archive of the agent, which Python runs.
_AGENT_MAIN = "import sys\n\nfrom %s.agent.__main__ import main\n\nsys.exit(main())\n" % PACKAGE


@lru_cache(maxsize=None)
def program(main: str, level: int = 6) -> bytes:
    """What `BOOT` reads first: the module *main*, such as "environments.main", and what it imports.

    level: of zlib; 0 is for what is compressed again.
    """
    packed = zlib.compress(json.dumps(modules(main)).encode(), level)
    return b"%d\n%b" % (len(packed), packed)


@lru_cache(maxsize=None)
def argument(main: str) -> str:
    """As :func:`program`, for ``python3 -c``."""
    return "exec(%s)" % _code(main, "run")


def cell(main: str) -> str:
    """As :func:`program`, for a kernel: its modules are there then, and no other names."""
    return "exec(%s, {})" % _code(main, "install", "kernel")


def _code(main: str, function: str, *boot: str) -> str:
    text = "%s\n%s(%r)" % (_boot("program", *boot), function, modules(main))
    packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    return '__import__("zlib").decompress(__import__("binascii").a2b_base64(%r))' % packed


def _boot(*names: str) -> str:
    """The modules of `boot` one after the other: nothing can be imported yet."""
    lines = [line for name in names for line in _module("boot." + name)[0].split("\n")]
    return "\n".join(line for line in lines if line and not line.startswith("from ."))


def modules(main: str) -> "Dict[str, str]":
    """The texts of *main* and of what it imports, by their full names on a host, *main* first."""
    texts: "Dict[str, str]" = {}

    def add(name: str) -> None:
        full = "%s.%s" % (PACKAGE, name)
        # A package is empty on hosts.
        if full not in texts and os.path.isfile(_path(name)):
            texts[full], imported = _module(name)
            for each in imported:
                add(each)

    add(main)
    return texts


def _path(name: str) -> str:
    return os.path.join(_TOP, *name.split(".")) + ".py"


@lru_cache(maxsize=None)
def _module(name: str) -> "Tuple[str, List[str]]":
    """A module of this package without comments, and the names of what it imports from it."""
    with open(_path(name), encoding="utf-8") as file:
        source = file.read()
    tree = ast.parse(source)
    imported = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = name.split(".")[: -node.level] + (node.module.split(".") if node.module else [])
            imported += [".".join([*base, *more]) for more in [[], *([a.name] for a in node.names)]]
    return _bare(source, tree), imported


class Bundle:
    """Files to be packed, by their names; those with the same content have the same *hash*.

    hash: 16 hexadecimal digits. shorten(content) is called for each file when it is packed.
    """

    def __init__(
        self,
        files: "Dict[str, bytes]",
        shorten: "Callable[[bytes], bytes]" = lambda content: content,
    ) -> None:
        self._files = files
        self._shorten = shorten
        digest = hashlib.sha256()
        for name, content in sorted(files.items()):
            digest.update(b"%s\0%d\0" % (name.encode(), len(content)))
            digest.update(content)
        self.hash = digest.hexdigest()[:16]

    @cached_property
    def contents(self) -> "Dict[str, bytes]":
        """What is packed, by name."""
        return {name: self._shorten(source) for name, source in sorted(self._files.items())}

    @cached_property
    def data(self) -> bytes:
        """An archive, the same on every machine. It is made when a host does not have it."""
        return zipped(self.contents)


@lru_cache(maxsize=None)
def agent_bundle() -> Bundle:
    """All of the agent, which keeps running on hosts."""
    files = {"__main__.py": _AGENT_MAIN.encode(), "%s/__init__.py" % PACKAGE: b""}
    for folder, _, names in os.walk(os.path.join(_TOP, "agent")):
        for name in names:
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, _TOP).replace(os.sep, "/")
                with open(path, "rb") as file:
                    files["%s/%s" % (PACKAGE, relative)] = file.read()
    return Bundle(files, lambda content: without_comments(content.decode()).encode())


def without_comments(source: str) -> str:
    """A module without its comments, docstrings, and the types of its functions, which are more
    than a third of what would be sent, and with an indentation of one space.

    Lines keep their numbers, as in tracebacks. A comment stays behind code with a quotation mark.
    """
    return _bare(source, ast.parse(source))


def _bare(source: str, tree: ast.AST) -> str:
    lines = source.split("\n")
    in_strings: "Set[int]" = set()  # lines that begin inside of one
    types: "List[Tuple[int, int, int]]" = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Constant, ast.JoinedStr)):
            in_strings.update(range(node.lineno + 1, (node.end_lineno or 0) + 1))
        types.extend(_types(node))
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            end = docstring.end_lineno or docstring.lineno
            # Not nothing: it may be all that a class has.
            lines[docstring.lineno - 1] = " " * docstring.col_offset + '""'
            lines[docstring.lineno : end] = [""] * (end - docstring.lineno)
    for line, start, end in sorted(types, reverse=True):
        encoded = lines[line - 1].encode()
        before = encoded[:start].rstrip()
        if before.endswith(b"->"):
            before = before[:-2].rstrip()
        lines[line - 1] = (before + encoded[end:]).decode()
    for number, text in enumerate(lines, 1):
        if number not in in_strings:
            code = text.lstrip(" ")
            indentation = (len(text) - len(code)) // 4
            if code.startswith("#") or not ('"' in code or "'" in code):
                code = code.partition("#")[0].rstrip()
            lines[number - 1] = " " * indentation + code if code else ""
    return "\n".join(lines)


def _types(node: ast.AST) -> "Iterator[Tuple[int, int, int]]":
    """Where the types of a function are: a line, and from and up to which byte of it."""
    if isinstance(node, ast.arg) and node.annotation is not None:
        annotation, start = node.annotation, node.col_offset + len(node.arg.encode())
        first = node.lineno
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.returns is not None:
        annotation, start = node.returns, node.returns.col_offset
        first = annotation.lineno
    else:
        return
    if first == annotation.end_lineno and annotation.end_col_offset is not None:
        yield first, start, annotation.end_col_offset


#: The first line is for people who list processes.
BOOT = "# on_host: of jupyter-tpu\n%s\nrun_input()" % _boot("program")


def startup_boot() -> str:
    """As `BOOT`, in a startup script. Its argument is the name of the login user."""
    calls = "become(sys.argv[1])\nunpack_input()\nrun_input()"
    return "# on_host: of jupyter-tpu\n%s\n%s" % (_boot("program", "login_user"), calls)

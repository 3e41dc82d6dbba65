"""Packs source files into one small archive that hosts can run: the agent's own, for example."""

from __future__ import annotations

import ast
import hashlib
import io
import os
import tokenize
import zipfile
import zlib
from functools import cached_property, lru_cache
from typing import Callable, Iterator

#: The package's name on a host, which may have jupyter_tpu itself installed.
PACKAGE = "jupyter_tpu_agent"

_MAIN = "import sys\n\nfrom %s.__main__ import main\n\nsys.exit(main())\n" % PACKAGE
#: Zip files have no earlier time. With a fixed one the archive is the same on every machine.
_EPOCH = (1980, 1, 1, 0, 0, 0)


class Bundle:
    """Files to be packed, by their names; those with the same content have the same *hash*.

    hash: 16 hexadecimal digits. shorten(content) is called for each file when it is packed.
    """

    def __init__(
        self, files: "dict[str, bytes]", shorten: Callable[[bytes], bytes] = lambda content: content
    ) -> None:
        self._files = files
        self._shorten = shorten
        digest = hashlib.sha256()
        for name, content in sorted(files.items()):
            digest.update(b"%s\0%d\0" % (name.encode(), len(content)))
            digest.update(content)
        self.hash = digest.hexdigest()[:16]

    @cached_property
    def contents(self) -> "dict[str, bytes]":
        """What is packed, by name."""
        return {name: self._shorten(source) for name, source in sorted(self._files.items())}

    @cached_property
    def data(self) -> bytes:
        """A zip file, compressed by zlib as a whole: that is a third less than file by file. The
        same on every machine. Most hosts have it already: then it costs nothing.
        """
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for name, content in self.contents.items():
                archive.writestr(zipfile.ZipInfo(name, _EPOCH), content)
        return zlib.compress(packed.getvalue(), 9)


@lru_cache(maxsize=None)
def bundle() -> Bundle:
    """The agent's archive."""
    files = {"__main__.py": _MAIN.encode(), **_sources()}
    return Bundle(files, lambda content: without_comments(content.decode()).encode())


def _sources() -> "dict[str, bytes]":
    """The agent's modules by their names in the archive."""
    top = os.path.dirname(os.path.abspath(__file__))
    sources = {}
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if name.endswith(".py") and path != os.path.abspath(__file__):
                relative = os.path.relpath(path, top).replace(os.sep, "/")
                with open(path, "rb") as file:
                    sources["%s/%s" % (PACKAGE, relative)] = file.read()
    return sources


def without_comments(source: str) -> str:
    """A module without its comments, docstrings, and the types of its functions, which are more
    than a third of what would be sent, and with an indentation of one space.

    Lines keep their numbers, as in the tracebacks of a log.
    """
    lines = source.split("\n")
    strings: "set[int]" = set()  # lines that begin inside of one
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        strings |= set(range(token.start[0] + 1, token.end[0] + 1))
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column].rstrip()
    tree = ast.parse(source)
    for line, start, end in sorted(_annotations(tree), reverse=True):
        encoded = lines[line - 1].encode()
        before = encoded[:start].rstrip()
        if before.endswith(b"->"):
            before = before[:-2].rstrip()
        lines[line - 1] = (before + encoded[end:]).decode()
    for node in ast.walk(tree):
        kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            end = docstring.end_lineno or docstring.lineno
            # Not nothing: it may be all that a class has.
            lines[docstring.lineno - 1] = " " * docstring.col_offset + '""'
            lines[docstring.lineno : end] = [""] * (end - docstring.lineno)
    for number, text in enumerate(lines, 1):
        code = text.lstrip(" ")
        if number not in strings:
            lines[number - 1] = " " * ((len(text) - len(code)) // 4) + code
    return "\n".join(lines)


def _annotations(tree: ast.AST) -> "Iterator[tuple[int, int, int]]":
    """Where the types of functions are: a line, and from and up to which byte of it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg) and node.annotation is not None:
            annotation, start = node.annotation, node.col_offset + len(node.arg.encode())
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.returns is not None:
            annotation, start = node.returns, node.returns.col_offset
        else:
            continue
        first = node.lineno if isinstance(node, ast.arg) else annotation.lineno
        if first == annotation.end_lineno and annotation.end_col_offset is not None:
            yield first, start, annotation.end_col_offset

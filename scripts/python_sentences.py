"""The texts in the Python code that a person may read: sentences, labels, and the help of commands.

A sentence is found by its form, wherever it stands: it begins like one, has two words or more, and
ends with a full stop, a question mark, an exclamation mark or a colon, which a parameter or a
command may follow: "Start it: jupyter tpu start NAME" is "Start it: {command}". A parameter behind
the end of a sentence is another sentence. Labels have no such form; they are known by where they
stand, see `_Collector.visit_Call`. The values of an f-string become parameters that are named after
their expressions: ``f"{self.tpu.name} is gone."`` is "{tpu_name} is gone.". Used by
scripts/catalogue.py.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple

Group = Literal["sentence", "label", "help"]

#: What no person reads in a face: the emulator speaks as Google does, jaxkit to programmers, agents
#: read English, REST's document is a reference, `on_host/boot` to the log of startup scripts.
SKIPPED = (
    "kernel_place.py",
    "kernels/config.py",
    "emulator/",
    "jaxkit/",
    "on_host/boot/",
    "ssh/asyncssh_internals.py",
    "server/routes.py",
    "mcp/",
    "server/openapi.py",
    "fleet/routes.py",
    "catalog/tables.py",
    "labextension/",
)

_START = r"[A-Z0-9`\"'(~\x00]|--[a-z]|(?:apt|exit|jupyter-tpu|libtpu|mosh|pip|tmux|uv)\b"
_SENTENCE = re.compile(rf"(?:{_START}).* .*(?:[.?!][`\")\x00]?|:|: \x00)", re.DOTALL)
#: What a user may copy, at the end of a text.
_COMMAND = re.compile(
    r"(?<=\w: )(?:(?:jupyter tpu|gcloud|%tpu|pip install|sudo|sky|python -c|import|PROJECT=\S+) .*"
    r"|\{program\} .*|https://\S+|--\w.*)$",
    re.DOTALL,
)
#: Calls whose strings no person sees, or that are examples of commands.
_NOT_SHOWN = {
    "AssertionError",
    "NotImplementedError",
    "compile",
    "Meta",
    "examples",
    "execute",
    "happened",
}
_LOGS = {"debug", "info", "warning", "error", "exception", "critical"}
#: A name of a TPU in the titles of operation kinds.
_KIND_FIELDS = {"running", "done", "cancelled", "failed", "present"}
_MAX_VARIANTS = 8
#: A word outside of a parameter.
_WORD = r"(?<![{\w])[A-Za-z]{3,}"


class Text(NamedTuple):
    """A text for translators; {name} stands for a parameter."""

    text: str
    group: Group
    file: str


def texts(package: Path) -> Iterator[Text]:
    """All texts of the package in the order of its files."""
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        if not name.startswith(SKIPPED):
            collector = _Collector(name)
            collector.visit(ast.parse(path.read_text(encoding="utf-8")))
            for text, group in collector.texts:
                yield Text(text, group, f"{package.name}/{name}")


class _Collector(ast.NodeVisitor):
    def __init__(self, file: str) -> None:
        self.texts: list[tuple[str, Group]] = []
        self._group: Group | None = None  # of the string that is visited, where its place says it
        self._face = file.startswith(("cli/", "commands/", "terminal/", "magics/"))

    # ---- places ----------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name == "other_hosts":  # what calls it has the sentences
            return
        if self._face and any(map(_makes_command, node.decorator_list)):
            self._add_help(ast.get_docstring(node) or "")
        self.generic_visit(node)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # else a docstring
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        name, arguments = _called(node.func), node.args
        if name in _LOGS or name in _NOT_SHOWN:
            return
        labels: list[tuple[ast.expr, Group | None]] = []
        if name == "StepPlan":
            labels += [(argument, "label") for argument in arguments[1:2]]
        elif name in ("log", "set_message", "phrase"):
            labels += [(argument, "label") for argument in arguments[:1]]
        elif name in ("count", "_count", "each_of") and len(arguments) == 2:
            self._add_count(arguments[1], name)
            return
        elif name == "other_hosts" and len(arguments) == 3:
            has, have = (_pattern(argument) for argument in arguments[1:])
            self.texts += [(f"The other host {verb}.", "sentence") for verb in has]
            self.texts += [(f"The other {{number}} hosts {verb}.", "sentence") for verb in have]
            return
        elif name in ("option", "section", "yes_option", "in_language", "help_text"):
            labels += [(argument, "help") for argument in arguments[:1]]
        for keyword in node.keywords:
            if name == "OperationKind" and keyword.arg in _KIND_FIELDS:
                labels.append((keyword.value, "label"))
            elif (self._face and keyword.arg in ("help", "epilog", "prompt")) or (
                name == "option" and keyword.arg in ("default", "typing_hint")
            ):
                labels.append((keyword.value, "help"))
            elif keyword.arg == "help":  # of the server's configuration
                labels.append((keyword.value, None))
        marked = {id(expression) for expression, _ in labels}
        for child in ast.iter_child_nodes(node):
            value = child.value if isinstance(child, ast.keyword) else child
            if id(value) not in marked:
                self.visit(child)
        for expression, group in labels:
            if group is not None:
                before, self._group = self._group, group
                self.visit(expression)
                self._group = before

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if self._face and names == ["GROUPS"] and isinstance(node.value, ast.Dict):
            for key, commands in zip(node.value.keys, node.value.values, strict=True):
                self._add(_pattern(key) if key else [], "help")
                assert isinstance(commands, ast.Dict)
                for summary in commands.values:
                    self._add(_pattern(summary), "help")
            return
        self.generic_visit(node)

    def visit_Tuple(self, node: ast.Tuple | ast.List) -> None:
        """The heads of a table: ("NAME", "ZONE")."""
        words = [element.value for element in node.elts if isinstance(element, ast.Constant)]
        strings = [word for word in words if isinstance(word, str) and word]
        if self._face and len(strings) > 1 and len(words) == len(node.elts) and all(
            word.replace(" ", "").isalpha() and word.isupper() for word in strings
        ):  # fmt: skip
            self.texts += [(word, "label") for word in strings]
            return
        self.generic_visit(node)

    # ---- strings ---------------------------------------------------------------------------------

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self._add(_pattern(node), self._group)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """ " "%s is gone." % name"""
        patterns = _pattern(node)
        if not patterns:
            self.generic_visit(node)
        else:
            self._add(patterns, self._group)
            self._visit_values(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self._add(_pattern(node), self._group)
        self._visit_values(node)

    def _visit_values(self, node: ast.AST) -> None:
        """The values in a string; they may have strings in them, such as the arguments of calls."""
        before, self._group = self._group, None
        for child in ast.walk(node):
            if isinstance(child, ast.Call):
                self.visit(child)
        self._group = before

    def _add(self, variants: Iterable[str], group: Group | None) -> None:
        for text in variants:
            if group == "help":
                self._add_help(text)
            elif group and re.search(_WORD, text):
                self.texts.append((" ".join(text.split()), group))
            elif _is_sentence(sentence := _without_tail(text)):
                self.texts.append((" ".join(sentence.split()), "sentence"))

    def _add_help(self, text: str) -> None:
        """The paragraphs of a help, without examples, which the backspace marks."""
        for paragraph in re.split(r"\n\s*\n", text):
            line = " ".join(paragraph.split())
            if re.search(_WORD, line) and "\b" not in paragraph and not line.startswith(("-", "~")):
                self.texts.append((line, "help"))

    def _add_count(self, what: ast.expr, name: str) -> None:
        """ "1 host", "2 hosts"."""
        for noun in _pattern(what):
            if re.fullmatch(r"[a-zA-Z -]+", noun):
                before = "each of " if name == "each_of" else ""
                self.texts += [(f"{before}{{number}} {noun}s", "label")]
                self.texts += [(f"the {noun}" if before else f"{{number}} {noun}", "label")]


def _called(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _makes_command(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and _called(decorator.func) in (
        "command",
        "group",
        "magic_command",
    )


def _without_tail(text: str) -> str:
    """A command at the end as a parameter, and no parameter that is a sentence of its own."""
    text = text.strip()
    if not text.endswith((".", "?", "!")):
        text = _COMMAND.sub("{command2}" if "{command}" in text else "{command}", text)
    return re.sub(r"(?<=[a-z)}][.?!]) ?\{\w+\}$", "", text)


def _is_sentence(text: str) -> bool:
    marked = re.sub(r"\{\w+\}", "\0", text.strip())
    letters = re.findall(r"[a-z]{2,}", marked)
    return (
        bool(_SENTENCE.fullmatch(marked))
        and len(letters) > 1
        and "\n" not in marked
        and not re.match(r"(SELECT|INSERT|UPDATE|DELETE FROM|CREATE|ALTER|DROP) ", marked)
        and not re.search(r"\\[a-z]|[<>]\w+>|^\w+=|;\s*$|[{}]", marked)
    )


# ---- f-strings -----------------------------------------------------------------------------------


class _Parameter(str):
    """The name of a parameter, as a part of a pattern."""


#: Literals and parameters, one after the other.
_Parts = tuple[str, ...]


def _pattern(node: ast.expr) -> list[str]:
    """The text of a string or f-string with {parameters}; several where it has alternatives that
    are strings themselves: ``f"{'A' if x else 'B'} …"``. Empty if it is no string.
    """
    return list(dict.fromkeys(map(_joined, _alternatives(node) or [])))


def _joined(parts: Iterable[str]) -> str:
    result, used, parameter_before = "", set(), False
    for part in parts:
        if not isinstance(part, _Parameter):
            result += part
            parameter_before = parameter_before and not part
            continue
        if parameter_before:  # two without anything between them are one
            continue
        name = str(part)
        for number in itertools.count(2):
            if name not in used:
                break
            name = f"{part}{number}"
        used.add(name)
        result += "{" + name + "}"
        parameter_before = True
    return result


def _alternatives(node: ast.expr) -> list[_Parts] | None:
    """What a string expression may be; None if it is none."""
    match node:
        case ast.Constant(value=str(text)):
            return [tuple(_constant_parts(text))]
        case ast.Constant():
            return None
        case ast.JoinedStr(values=values):
            return _product(map(_value_alternatives, values))
        case ast.IfExp(body=body, orelse=orelse):
            branches = [_alternatives(body), _alternatives(orelse)]
            return None if None in branches else [*(branches[0] or []), *(branches[1] or [])]
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            if _alternatives(left) is None and _alternatives(right) is None:
                return None
            return _product(map(_value_alternatives, (left, right)))
        case ast.BinOp(op=ast.Mult(), left=left, right=ast.Compare()):  # "s" * (number > 1)
            return None if _alternatives(left) is None else [*(_alternatives(left) or []), ("",)]
        case ast.BinOp(op=ast.Mod(), left=ast.Constant(value=str(text)), right=right):
            values = right.elts if isinstance(right, ast.Tuple) else [right]
            literals = re.split(_PERCENT, text)
            if len(literals) != len(values) + 1:
                return None
            parts: list[str] = [literals[0].replace("%%", "%")]
            for value, literal in zip(values, literals[1:], strict=True):
                parts += [_Parameter(parameter_name(value)), literal.replace("%%", "%")]
            return [tuple(parts)]
        case _:
            return None


#: %s, but not %tpu and %%s.
_PERCENT = r"(?<!%)%(?:[-\d.]*)[srdgfx](?![a-z])"


def _constant_parts(text: str) -> list[str]:
    """A string that may be for str.format ("{} is queued": so far only TPUs have no name there) or
    for the operator %.
    """
    pieces = re.split(rf"\{{(\d*|[a-z_]+)\}}|{_PERCENT}", text)
    return [
        _constant_parameter(piece) if index % 2 else piece or ""
        for index, piece in enumerate(pieces)
    ]


def _constant_parameter(name: str | None) -> _Parameter:
    return _Parameter("value" if name is None else name if name[:1].isalpha() else "tpu")


def _product(parts: Iterable[list[_Parts]]) -> list[_Parts]:
    result: list[_Parts] = [()]
    for alternatives in parts:
        if len(result) * len(alternatives) > _MAX_VARIANTS:
            words = re.findall(r"[a-z]+", " ".join(map("".join, alternatives)))
            alternatives = [(_Parameter(words[0] if words else "value"),)]
        result = [(*before, *alternative) for before in result for alternative in alternatives]
    return result


def _value_alternatives(node: ast.expr) -> list[_Parts]:
    """What a part of a string may be, if those are strings, else a parameter."""
    if isinstance(node, ast.FormattedValue):
        return _value_alternatives(node.value)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [(node.value,)]
    return _alternatives(node) or [(_Parameter(parameter_name(node)),)]


def _identifier(text: str) -> str:
    return re.sub(r"\W", "_", text)


def parameter_name(node: ast.expr) -> str:
    """A name for the value of an expression: "tpu_name" for ``self.tpu.name``."""
    match node:
        case ast.Name(id=name):
            return name.strip("_") or "value"
        case ast.Attribute(value=ast.Name(id=owner), attr=name):
            return name.strip("_") if owner in ("self", "request", "cls") else f"{owner}_{name}"
        case ast.Attribute(value=ast.Attribute(attr=owner), attr=name):
            return f"{owner}_{name}"
        case ast.Attribute(attr=name):
            return name
        case ast.Call(func=ast.Name(id="count" | "each_of"), args=[_, ast.Constant(value=noun)]):
            return _identifier(f"{noun!s}s")
        case (
            ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant() as key, *_])
            | ast.Subscript(slice=ast.Constant() as key)
        ) if isinstance(key.value, str):
            return _identifier(key.value)
        case ast.Call(func=ast.Attribute(value=value, attr="lower" | "strip" | "rstrip")):
            return parameter_name(value)
        case ast.Call(func=ast.Name(id="len"), args=[value]):
            return f"{parameter_name(value)}_count"
        case ast.Call(args=[value, *_]) if not isinstance(value, ast.Constant):
            return parameter_name(value)
        case ast.Call(func=function):
            return parameter_name(function)
        case ast.Subscript(value=value) | ast.Starred(value=value) | ast.Await(value=value):
            return parameter_name(value)
        case ast.BinOp(left=value) | ast.IfExp(body=value) | ast.BoolOp(values=[value, *_]):
            return parameter_name(value)
        case ast.GeneratorExp(elt=value) | ast.ListComp(elt=value):
            return parameter_name(value)
        case _:
            return "value"

"""Writes the reference tables in docs/: options, commands, magics and the REST interface.

They are made from the code, and stand between two comments in each page; the rest of a page is
written by hand. With ``--check`` nothing is written; the exit code says whether all are up to date.
"""

from __future__ import annotations

import argparse
import functools
import inspect
import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any

import click
import msgspec

from jupyter_tpu.cli.root import tpu
from jupyter_tpu.environment import host_answers
from jupyter_tpu.errors import Reason
from jupyter_tpu.files import sharing
from jupyter_tpu.fleet.files import contents, files
from jupyter_tpu.fleet.forwarding import tensorboard
from jupyter_tpu.fleet.jobs import host_profiles
from jupyter_tpu.fleet.ray import hosts as ray
from jupyter_tpu.kernels.provisioner import TPUProvisioner
from jupyter_tpu.links import host_calls
from jupyter_tpu.magics import grammar as magics
from jupyter_tpu.magics import kernel_grammar
from jupyter_tpu.mcp.tools import tools
from jupyter_tpu.on_host.agent.protocol import records
from jupyter_tpu.on_host.agent.protocol.requests import REQUESTS
from jupyter_tpu.server.app import JupyterTPU
from jupyter_tpu.server.routes import ALL_ROUTES
from jupyter_tpu.server.status import STATUS
from jupyter_tpu.ssh import host_values
from jupyter_tpu.ssh.agent_answers import bounded
from jupyter_tpu.terminal import agent_access

#: The programs on hosts whose functions are called.
PROGRAMS = (
    host_answers.ENVIRONMENTS,
    host_answers.CHIPS,
    sharing.PROGRAM,
    host_profiles.PROGRAM,
    tensorboard.PROGRAM,
    ray.STATE_PROGRAM,
)
DOCS = Path(__file__).parent.parent / "docs"
BEGIN, END = "<!-- made by `make types`: {} -->", "<!-- end -->"


@cache
def tables() -> dict[str, dict[str, str]]:
    """The made parts of each page, by name."""
    return {
        "reference/configuration.md": {
            "JupyterTPU": _options(JupyterTPU),
            # What identifies the host is in each kernelspec; the rest is for users.
            "TPUProvisioner": _options(
                TPUProvisioner,
                ("project_sync", "needs_chips", "journal_limit", "when_full", "start_timeout"),
            ),
        },
        "reference/commands.md": {
            "commands": _table(("Command", "What it does"), _commands("jupyter", tpu))
        },
        "notebooks/magics.md": {
            "magics": _table(
                ("Magic", "What it does"),
                [*_commands("", magics.line), *_commands("", kernel_grammar.cell)],
            )
        },
        "billing/agents.md": {"agents": _agents()},
        "reference/security.md": {"hosts": _messages_of_hosts()},
        "reference/rest.md": {
            "routes": _routes(),
            "errors": _table(
                ("`reason`", "HTTP status"),
                ((f"`{reason}`", _status(STATUS.get(reason, 500))) for reason in Reason),
            ),
            "models": _models(),
        },
    }


def render(page: str) -> str:
    """A page as it should be."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for name, table in tables()[page].items():
        begin = BEGIN.format(name)
        before, found, rest = text.partition(begin)
        if not found:
            raise ValueError(f"docs/{page} has no place for: {begin}")
        text = f"{before}{begin}\n\n{table}\n\n{END}{rest.partition(END)[2]}"
    return text


# ---- options, commands ---------------------------------------------------------------------------


def _options(kind: Any, names: Iterable[str] = ()) -> str:
    traits = kind.class_own_traits(config=True)
    rows = (
        (f"`c.{kind.__name__}.{name}`", f"`{traits[name].default_value_repr()}`", traits[name].help)
        for name in names or sorted(traits)
    )
    return _table(("Option", "Default", "Meaning"), rows)


def _commands(parent: str, command: click.Command) -> Iterator[tuple[str, str]]:
    """Each command below *command*, or itself if it has none: its line, and what it does."""
    path = f"{parent} {command.name}".strip()
    ctx = click.Context(command)
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            if below is not None and not below.hidden:
                yield from _commands(path, below)
        return
    line = " ".join([path, *command.collect_usage_pieces(ctx)])
    about = inspect.cleandoc(command.help or "").split("\n\n")[0]
    yield f"`{line}`", " ".join(about.split())


# ---- what coding agents may run -----------------------------------------------------------------


def _agents() -> str:
    """Each command, magic and tool: whether an agent may run it, and when."""
    names = [name.rpartition(":")[2] for name in tools()]
    groups = (
        ("Command", "jupyter tpu", _words(tpu), agent_access.COMMANDS),
        ("Magic", "%tpu", _words(magics.line), agent_access.MAGICS),
        ("Cell magic", "%%tpu", ["", "compile"], agent_access.CELLS),
        ("Tool (MCP)", "", names, agent_access.TOOLS),
    )
    return "\n\n".join(
        _table(
            (head, "Agents", "Condition", "Options"),
            (_agents_row(f"{before} {name}".strip(), named.get(name)) for name in names),
        )
        for head, before, names, named in groups
    )


def _agents_row(name: str, access: agent_access.Access | None) -> tuple[str, ...]:
    if access is None:
        return f"`{name}`", "no", "", ""
    options = " ".join(f"`{option}`" for option in sorted(access.options))
    return f"`{name}`", "yes", access.condition, options


def _words(group: click.Group) -> Iterator[str]:
    """The words of each command below *group*: "job start"."""
    ctx = click.Context(group)
    for name in group.list_commands(ctx):
        below = group.get_command(ctx, name)
        if isinstance(below, click.Group):
            yield from (f"{name} {words}" for words in _words(below))
        elif below is not None and not below.hidden:
            yield name


# ---- what hosts may say --------------------------------------------------------------------------


def _messages_of_hosts() -> str:
    """Each message of a host, and below them the fields of all."""
    messages = {
        "what `up` prints": bounded(records.Started),
        "the daemon's hello": bounded(records.DaemonHello),
        "an error of the daemon": bounded(records.DaemonProblem),
        **{f"`{op}`, by the daemon": bounded(kind.answer) for op, kind in REQUESTS.items()},
        "the keeper's hello": bounded(records.KeeperHello),
        "a rejection by the keeper": bounded(records.Rejection),
        "a notice of the keeper": bounded(records.KeeperNotice),
        "an event of the keeper": bounded(records.KeeperEvent),
        "a line of a program": host_calls.Said,
        "an error of a program": host_calls.FailedCall,
        **{
            f"`{name}`, by a program": kind
            for program in PROGRAMS
            for name, kind in program.answers.items()
        },
        "before a file's content": files.FileAnswer,
        "before the file browser's": contents.ContentsAnswer,
        "in a folder of the file browser": contents.FoundFile,
    }
    fields: dict[str, dict[str, Any]] = {}
    info = msgspec.inspect.type_info
    rows = [(name, _described(info(kind), fields)) for name, kind in messages.items()]
    below = [
        (name, f"`{field}`", _described(kind, {}))
        for name, kinds in sorted(fields.items())
        for field, kind in kinds.items()
    ]
    return "\n\n".join(
        [_table(("Message", "What it is"), rows), _table(("", "Field", "What it may be"), below)]
    )


def _described(kind: Any, fields: dict[str, dict[str, Any]]) -> str:
    """What a value of this type may be; collects the fields of objects."""
    from msgspec import inspect as types

    if isinstance(kind, (types.TypedDictType, types.StructType)):
        name = kind.cls.__name__
        if name not in fields:
            fields[name] = {}
            fields[name] = {each.name: each.type for each in kind.fields}
            for each in kind.fields:
                _described(each.type, fields)
        return f"{name}"
    inner = functools.partial(_described, fields=fields)
    match kind:
        case types.StrType(pattern=str() as pattern):
            return _TEXTS[pattern]
        case types.StrType(max_length=length):
            return f"text, at most {length:,} characters" if length else "text"
        case types.IntType(ge=least, le=most):
            return "a number" if most is None else f"a number from {least:,} to {most:,}"
        case types.FloatType(ge=least, le=most):
            return "a number" if most is None else f"a number from {least:g} to {most:g}"
        case types.LiteralType(values=values):
            return " or ".join(f"`{json.dumps(value)}`" for value in values)
        case types.EnumType():
            return "a [reason](rest.md#errors)"
        case types.ListType(item_type=item, max_length=length):
            return f"a list{f' of at most {length:,}' if length else ''}: {inner(item)}"
        case types.TupleType(item_types=items):
            return f"a list of: {', '.join(map(inner, items))}"
        case types.DictType(key_type=key, value_type=value):
            return f"an object of {inner(key)}: {inner(value)}"
        case types.UnionType(types=several):
            return " or ".join(map(inner, several))
    return _PLAIN[type(kind).__name__]


_KINDS: tuple[tuple[Any, str], ...] = (
    (host_values.Id, "an ID: letters, digits and `_.-`, at most 128"),
    (host_values.AnyId, "an ID, or empty"),
    (host_values.Word, "letters, digits and `_.-`, at most 64"),
    (host_values.Token, "printable ASCII, at most 512"),
    (host_values.Time, "a time"),
    (host_values.HostPath, "an absolute path without control characters, or empty"),
    (host_values.Address, "an IP address, or empty"),
    (host_values.Requirement, "a requirement, never an option"),
    (host_answers.Version, "a version of Python, or empty"),
    (sharing.SharedPath, "an absolute path without control characters and backslashes"),
    (contents.BrowserPath, "a relative path without `..`"),
)
#: What a text of each pattern is.
_TEXTS = {kind.__metadata__[0].pattern: about for kind, about in _KINDS}
_PLAIN = {
    "BoolType": "true or false",
    "NoneType": "null",
    "BytesType": "base64",
    "AnyType": "as its function says",
}


# ---- REST ----------------------------------------------------------------------------------------


def _routes() -> str:
    rows = (
        (
            f"`{each.method} {each.path}`",
            each.about + "".join(f"<br>`?{name}=`: {what}" for name, what in each.query.items()),
            "the file" if each.file == "body" else _link(each.body),
            "200 the file"
            if each.file == "answer"
            else "200 text"
            if each.text
            else f"{each.status} {_link(each.answer)}".strip()
            if each.answer is not None
            else "204",
        )
        for each in ALL_ROUTES
    )
    return _table(("Request", "What it does", "Body", "Answer"), rows)


def _link(kind: Any) -> str:
    """A body's or an answer's type, with a link to its fields."""
    if kind is None:
        return ""
    name = getattr(kind, "__name__", str(kind))
    inner = getattr(kind, "__args__", ())
    if inner:  # list[X]
        return f"list of {_link(inner[0])}"
    return f"[{name}](#{name.lower()})"


def _models() -> str:
    routes = ALL_ROUTES
    kinds = [kind for each in routes for kind in (each.body, each.answer, each.result) if kind]
    unique = list({str(kind): kind for kind in kinds}.values())
    _, schemas = msgspec.json.schema_components(unique, ref_template="{name}")
    structs = _structs(unique)
    parts = []
    for name, schema in sorted(schemas.items()):
        about = _markdown(schema.get("description", ""))
        if "enum" in schema:
            values = ", ".join(f"`{value}`" for value in schema["enum"])
            parts.append(f"### {name}\n\n{about}\n\nOne of {values}.")
            continue
        comments = _comments(structs[name]) if name in structs else {}
        required = schema.get("required", ())
        rows = (
            (
                f"`{field}`",
                _type(what),
                "" if field in required or "default" not in what else _default(what["default"]),
                _meaning(what.get("description", ""), comments.get(field, "")),
            )
            for field, what in schema.get("properties", {}).items()
        )
        parts.append(
            f"### {name}\n\n{about}\n\n{_table(('Field', 'Type', 'Default', 'Meaning'), rows)}"
        )
    return "\n\n".join(re.sub(r"\n{3,}", "\n\n", part) for part in parts)


def _structs(kinds: Iterable[Any]) -> dict[str, type]:
    """All structs that *kinds* consist of, by name."""
    found: dict[str, type] = {}

    def visit(kind: Any) -> None:
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            if kind.__name__ in found:
                return
            found[kind.__name__] = kind
            for field in msgspec.structs.fields(kind):
                visit(field.type)
        for inner in getattr(kind, "__args__", ()):
            visit(inner)

    for kind in kinds:
        visit(kind)
    return found


def _comments(kind: type) -> dict[str, str]:
    """The comments of a struct's fields: "#:" above them, or "#" behind them."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__[:-1]):
        if each is msgspec.Struct or not issubclass(each, msgspec.Struct):
            continue
        above: list[str] = []
        for line in inspect.getsource(each).splitlines():
            text = line.strip()
            field = re.match(r"    (\w+): ", line)
            if text.startswith("#:"):
                above.append(text[2:].strip())
            elif field:
                behind = re.search(r"  #:? (.*)", line)
                found[field[1]] = _markdown(" ".join([*above, behind[1] if behind else ""]))
                above = []
    return found


def _meaning(described: str, comment: str) -> str:
    """What is said of an option (in sentences) or of allowed texts (not one), with its comment."""
    if described and not described.endswith("."):
        described, comment = comment, f"{described[0].upper()}{described[1:]}."
    return _markdown(f"{described} {comment}")


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(sorted(map(_type, schema["anyOf"]), key="null".__eq__))
    if "enum" in schema:
        return " or ".join(f"`{value}`" for value in schema["enum"])
    kind = schema.get("type", "any")
    if kind == "array" and schema.get("items"):
        return f"list of {_type(schema['items'])}"
    if kind == "object" and schema.get("additionalProperties"):
        return f"object of {_type(schema['additionalProperties'])}"
    return str(kind)


def _default(value: Any) -> str:
    return f"`{msgspec.json.encode(value).decode()}`"


# ---- Markdown ------------------------------------------------------------------------------------


def _status(number: int) -> str:
    return f"{number} {HTTPStatus(number).phrase}"


def _markdown(text: str) -> str:
    """reStructuredText's double backticks become single; one line."""
    return " ".join(re.sub(r"``(.+?)``", r"`\1`", text).split())


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    heads = list(heads)
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in line)} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    options = parser.parse_args(arguments)
    stale = [page for page in tables() if (DOCS / page).read_text(encoding="utf-8") != render(page)]
    if not options.check:
        for page in stale:
            (DOCS / page).write_text(render(page), encoding="utf-8")
        return 0
    for page in stale:
        print(f"docs/{page} is not what the code says: run `make types`", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())

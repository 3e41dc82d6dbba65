"""Reference pages that are made from the code when the documentation site is built.

They are not in the repository. What people also read there, such as the table of all commands, is
made by `reference_docs` instead, and tested to be up to date.
"""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
import reference_docs as tables

from jupyter_tpu.cli.root import tpu
from jupyter_tpu.server import events
from jupyter_tpu.server.openapi import document

ROOT = Path(__file__).parent.parent


class MadePage(NamedTuple):
    """A page of the site: its file below docs/, its entry in the menu, and its text in Markdown."""

    path: str
    title: str
    make: Callable[[], str]


# ---- commands ------------------------------------------------------------------------------------


def commands() -> str:
    """Each command of `jupyter tpu`, with all its options."""
    intro = (
        "# All commands and their options\n\n"
        "[The command line](commands.md) says what they have in common. "
        "In a terminal, `jupyter tpu COMMAND --help` says the same as this page."
    )
    return "\n\n".join([intro, *_commands("jupyter", tpu, 2)])


def _commands(parent: str, command: click.Command, level: int) -> Iterator[str]:
    path = f"{parent} {command.name}"
    ctx = click.Context(command, info_name=path)
    if level > 2:
        yield f"{'#' * min(level - 1, 3)} {path.removeprefix('jupyter tpu ')}"
        yield _help(command.help)
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            below = command.get_command(ctx, name)
            if below is not None and not below.hidden:
                yield from _commands(path, below, level + 1)
        return
    yield f"```\n{' '.join([path, *command.collect_usage_pieces(ctx)])}\n```"
    rows = [
        (f"`{parameter_record[0]}`", parameter_record[1])
        for parameter in command.get_params(ctx)
        if (parameter_record := parameter.get_help_record(ctx)) is not None
        and parameter.name != "help"
    ]
    if rows:
        yield tables._table(("Option", "Meaning"), ((name, _escaped(text)) for name, text in rows))


def _help(text: str | None) -> str:
    """A command's help as Markdown. A paragraph that begins with "\\b" keeps its lines."""
    parts = []
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        if paragraph.startswith("\b"):
            parts.append(f"```\n{paragraph[1:].strip(chr(10))}\n```")
        else:
            parts.append(_escaped(tables._markdown(paragraph)))
    return "\n\n".join(parts)


# ---- REST ----------------------------------------------------------------------------------------


def rest() -> str:
    """Each request of the OpenAPI document, with its parameters, body, answer and a command."""
    described = document()
    schemas = described["components"]["schemas"]
    requests = [
        (path.removeprefix("/"), method.upper(), operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    subjects: dict[str, list[str]] = {}
    counts = Counter(_subject(path) for path, _, _ in requests)
    for path, method, operation in requests:
        subject = _subject(path)
        if counts[subject] == 1:
            subject = path.partition("/")[0]
        subjects.setdefault(subject, []).append(_request(method, path, operation, schemas))
    intro = (
        f"# REST, request by request\n\n"
        f"This page is made from the OpenAPI document, version {described['info']['version']}, "
        f"which a running server has at `jupyter-tpu/v1/openapi.json`. "
        f"[REST interface and events](rest.md) says how to send requests, and has all types."
    )
    for subject, texts in subjects.items():
        intro += "\n\n" + "\n\n".join([f"## {subject}", *texts])
    return intro


def _subject(path: str) -> str:
    """What a request is about: "jobs" for ``tpus/{tpu}/jobs/{job}``, "hunts" for ``hunts``."""
    parts = path.split("/")
    return parts[2] if parts[0] == "tpus" and len(parts) > 2 else parts[0]


def _request(
    method: str, path: str, operation: Mapping[str, Any], schemas: Mapping[str, Any]
) -> str:
    parts = [f"### `{method} {path}`", _escaped(operation["summary"]) + "."]
    if "description" in operation:
        parts.append(_escaped(tables._markdown(operation["description"])))
    if parameters := operation.get("parameters"):
        rows = (
            (f"`{part['name']}`", part["in"], _escaped(part.get("description", "")))
            for part in parameters
        )
        parts.append(tables._table(("Parameter", "In", "Meaning"), rows))
    body = operation.get("requestBody", {}).get("content", {})
    if schema := body.get("application/json", {}).get("schema"):
        parts.append(f"**Body:** {_type(schema)}")
        if fields := _fields(schema, schemas):
            parts.append(fields)
    elif body:
        parts.append("**Body:** the file")
    answers = []
    for status, answer in operation["responses"].items():
        if status == "default":
            continue
        kinds = [
            _type(content["schema"]) if name == "application/json" and "schema" in content else name
            for name, content in answer.get("content", {}).items()
        ]
        answers.append(f"{status} {', or '.join(kinds) or 'without a body'}")
    parts.append(f"**Answer:** {'; '.join(answers)}. Errors are a [Problem](rest.md#problem).")
    parts.append(f"```\n{_example(method, path, body, schemas)}\n```")
    return "\n\n".join(parts)


def _fields(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    record = _resolved(schema, schemas)
    required = record.get("required", ())
    rows = [
        (
            f"`{name}`",
            _type(field),
            "required"
            if name in required
            else tables._default(field["default"])
            if "default" in field
            else "",
            _escaped(tables._markdown(field.get("description", ""))),
        )
        for name, field in record.get("properties", {}).items()
    ]
    return tables._table(("Field", "Type", "Default", "Meaning"), rows) if rows else ""


def _example(method: str, path: str, body: Mapping[str, Any], schemas: Mapping[str, Any]) -> str:
    """The command line that sends it, with the fields that are required."""
    line = f"jupyter tpu api {method} {path}"
    if "application/json" not in body:
        return f"{line} --data @FILE" if body else line
    record = _resolved(body["application/json"]["schema"], schemas)
    required = {
        name: _value(record["properties"][name], name, schemas)
        for name in record.get("required", ())
    }
    return f"{line} --data '{json.dumps(required)}'"


def _value(schema: Mapping[str, Any], name: str, schemas: Mapping[str, Any]) -> Any:
    """A value of this type, for an example."""
    record = _resolved(schema, schemas)
    if "anyOf" in record:
        return _value(record["anyOf"][0], name, schemas)
    if "enum" in record:
        return record["enum"][0]
    kind = record.get("type")
    if kind == "object":
        return {
            below: _value(record["properties"][below], below, schemas)
            for below in record.get("required", ())
        }
    if kind == "array":
        return [_value(record["items"], name, schemas)] if record.get("items") else []
    return {"integer": 1, "number": 1.0, "boolean": True}.get(str(kind), name.upper())


def _resolved(schema: Mapping[str, Any], schemas: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        schema = schemas[schema["$ref"].rpartition("/")[2]]
    return schema


def _type(schema: Mapping[str, Any]) -> str:
    """A type, with links to the types in rest.md."""
    if "allOf" in schema:
        return " with ".join(_type(part) for part in schema["allOf"])
    if list(schema) == ["properties"]:
        return ", ".join(f"`{name}`: {_type(of)}" for name, of in schema["properties"].items())
    text = json.dumps(schema).replace("#/components/schemas/", "")
    return tables._type(json.loads(text)).replace("](#", "](rest.md#")


# ---- events, settings ----------------------------------------------------------------------------


def changes() -> str:
    """The schemas of the events."""
    parts = [
        "# Events\n\nJupyter Server publishes them at `BASE_URL/api/events/subscribe`. "
        "[REST interface and events](rest.md) says what they are for."
    ]
    for schema in (events.SCHEMA, events.REFUSED_SCHEMA):
        required = schema["required"]
        rows = (
            (
                f"`{name}`",
                _type(field) if "enum" in field else str(_alternatives(field.get("type", "any"))),
                "required" if name in required else "",
                _linked(field.get("description", "")),
            )
            for name, field in schema["properties"].items()
        )
        parts.append(
            f"## {schema['title']}\n\n`{schema['$id']}`\n\n{schema['description']}\n\n"
            + tables._table(("Field", "Type", "", "Meaning"), rows)
        )
    return "\n\n".join(parts)


def _alternatives(kind: str | Iterable[str]) -> str:
    return kind if isinstance(kind, str) else " or ".join(kind)


def _linked(text: str) -> str:
    """ "TPU of the OpenAPI document" becomes a link to that type."""
    return re.sub(
        r"^(\w+) of (?:the OpenAPI|that) document\.$",
        lambda match: f"[{match[1]}](rest.md#{match[1].lower()})",
        text,
    )


def settings() -> str:
    """The settings of JupyterLab and of VS Code."""
    parts = [
        "# Settings of JupyterLab and VS Code\n\nThe server's options are in "
        "[Configuration](configuration.md).\n\n## JupyterLab\n\n*Settings* → *Settings Editor*."
    ]
    for file in sorted((ROOT / "labextension" / "schema").glob("*.json")):
        schema = json.loads(file.read_text(encoding="utf-8"))
        if schema.get("properties"):
            parts.append(f"### {schema['title']}\n\n{schema['description']}")
            parts.append(_settings(schema["properties"]))
    contributed = _manifest()["contributes"]
    parts.append("## VS Code\n\n*File* → *Preferences* → *Settings*.")
    parts.append(_settings(contributed["configuration"]["properties"]))
    parts.append("### Commands of VS Code\n\nIn the command palette (F1).")
    rows = (
        (f"{entry.get('category', '')}: {entry['title']}", f"`{entry['command']}`")
        for entry in contributed["commands"]
    )
    parts.append(tables._table(("Command", "ID"), rows))
    return "\n\n".join(parts)


def _manifest() -> Any:
    """The package.json of the extension for VS Code, with its texts."""
    folder = ROOT / "vscode"
    texts = json.loads((folder / "package.nls.json").read_text(encoding="utf-8"))
    manifest = (folder / "package.json").read_text(encoding="utf-8")
    return json.loads(re.sub(r'"%([\w.]+)%"', lambda key: json.dumps(texts[key[1]]), manifest))


def _settings(properties: Mapping[str, Mapping[str, Any]]) -> str:
    rows = (
        (
            f"`{name}`",
            setting.get("title", ""),
            tables._default(setting["default"]) if "default" in setting else "",
            _escaped(setting.get("markdownDescription", setting.get("description", ""))),
        )
        for name, setting in properties.items()
    )
    return tables._table(("Setting", "Title", "Default", "Meaning"), rows)


def _escaped(text: str) -> str:
    """Text in Markdown, in which "<" and "*" outside of code are themselves."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*_])", r"\\\1", part.replace("<", "&lt;")) for part in parts[::2]]
    return "`".join(parts)


PAGES = (
    MadePage("reference/command-options.md", "All commands and their options", commands),
    MadePage("reference/rest-requests.md", "REST, request by request", rest),
    MadePage("reference/events.md", "Events", changes),
    MadePage("reference/settings.md", "Settings of JupyterLab and VS Code", settings),
)

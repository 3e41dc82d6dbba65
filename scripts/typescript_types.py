"""Writes what the frontend knows of the server's REST interface, from its models and routes.

In ``labextension/src/rest``, ``api.ts`` has the types of bodies, answers and events, formatted as
Prettier wants them; ``requests.ts`` has a method for each route, with the names that the fleet has
in Python; ``operationKinds.ts`` has the titles of operations; ``version.ts`` the
page's version. With ``--check`` nothing is written;
the exit code says whether they are up to date.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from jupyter_tpu.fleet import models
from jupyter_tpu.fleet.models.operation_kinds import KINDS, OperationKind
from jupyter_tpu.fleet.routes import ROUTES, Route

FOLDER = Path(__file__).parent.parent / "labextension" / "src" / "rest"
WIDTH = 80  # Prettier's default

#: Bodies: fields with a default may be left out. Answers always carry every field.
REQUESTS = {each.body for each in ROUTES if each.body}
ANSWERS = [each.answer for each in ROUTES if each.answer]
#: What reaches the frontend in another way: in errors, events and operations, and of files.
OTHERS = [models.Problem, models.Change, models.HostFile, *(r.result for r in ROUTES if r.result)]
#: Parts of paths that name a TPU or a queued resource; the others are strings.
REFERENCES = ("tpu", "queued")

HEAD = """\
// Made by scripts/typescript_types.py from the server's {}: don't edit, run `make types`.
"""

#: How the requests are sent is the client's own.
REQUESTS_START = """\

import {{
{imports}
}} from './api';

/** A TPU, or a queued resource. */
export interface IReference {{
  name: string;
  zone: string;
}}

type Value = string | number | boolean | undefined;

/** The query of an address; what is undefined is left out. */
export interface IQuery {{
  [name: string]: Value;
}}

/** What a request takes besides its path. */
export interface IParameters {{
  body?: object;
  query?: IQuery;
  signal?: AbortSignal;
}}

/** The requests of the fleet's REST interface, with the names that they have in Python. */
export abstract class FleetRequests {{
  /** Sends a request, and resolves to its answer. */
  protected abstract send<T>(
    method: string,
    path: (string | IReference)[],
    parameters: IParameters
  ): Promise<T>;
"""

KINDS_FILE = """\
{head}
import {{ trans }} from '../language/translation';
import {{ IOperation }} from './api';

/** Kinds during which other operations can be started. */
export const NON_EXCLUSIVE_KINDS: IOperation['kind'][] = [
{shared}
];

/** The titles of an operation on the TPU *name*, by its state. */
export function kindTitles(
  kind: IOperation['kind'],
  name: string
): Record<IOperation['state'], string> {{
  switch (kind) {{
{cases}  }}
}}
"""


VERSION_FILE = """\
{head}
/** The version of this page. */
export const VERSION = '{version}';
"""


def render() -> dict[Path, str]:
    """The content of each file."""
    answers, schemas = msgspec.json.schema_components(
        [*ANSWERS, *OTHERS, *sorted(REQUESTS, key=lambda model: model.__name__)],
        ref_template="#/{name}",
    )
    interfaces = {name for name, schema in schemas.items() if "properties" in schema}
    types = [_variants(answer, interfaces) for answer in answers]
    calls = [each.call for each in ROUTES if each.answer]
    answered = dict(zip(calls, types[: len(calls)], strict=True))
    return {
        FOLDER / "api.ts": _render_types(schemas, interfaces, _inputs(answers, schemas)),
        FOLDER / "requests.ts": _render_requests(answered),
        FOLDER / "operationKinds.ts": _render_kinds(),
        FOLDER / "version.ts": _render_version(),
    }


def _render_version() -> str:
    package = json.loads((FOLDER.parents[2] / "package.json").read_text(encoding="utf-8"))
    return VERSION_FILE.format(
        head=HEAD.replace("the server's {}", "package.json"), version=package["version"]
    )


def _inputs(answers: Sequence[Any], schemas: dict[str, Any]) -> set[str]:
    """The names of requests, and of what only requests consist of."""
    inputs = {model.__name__ for model in REQUESTS}
    used = {name: set(re.findall(r"#/(\w+)", str(schema))) for name, schema in schemas.items()}
    answered = set(re.findall(r"#/(\w+)", str(answers[: len(ANSWERS) + len(OTHERS)])))
    while True:
        outputs = answered.union(*(used[name] for name in schemas.keys() - inputs))
        more = schemas.keys() - inputs - outputs
        if not more:
            return inputs
        inputs |= more


def _render_types(schemas: dict[str, Any], interfaces: set[str], inputs: set[str]) -> str:
    parts = [
        _interface(name, schema, interfaces, optional=name in inputs)
        if name in interfaces
        else _alias(name, schema)
        for name, schema in sorted(schemas.items())
    ]
    return HEAD.format("models") + "\n" + "\n".join(parts)


def _render_requests(answers: dict[str, list[str]]) -> str:
    lines: list[str] = []
    parts = itertools.groupby(
        sorted(ROUTES, key=lambda each: each.call.rpartition(".")[0]),
        lambda each: each.call.rpartition(".")[0],
    )
    for part, routes in parts:
        methods = [_request(each, answers.get(each.call, ["void"])) for each in routes]
        if part:
            inner = ",\n".join(f"{doc}    {name}: {rest}" for name, doc, rest in methods)
            lines.append(f"\n  readonly {_camel(part)} = {{\n{inner}\n  }};\n")
        else:
            lines += [
                textwrap.indent(textwrap.dedent(f"\n{doc}    readonly {name} = {rest};\n"), "  ")
                for name, doc, rest in methods
            ]
    body = "".join(lines)
    imports = ",\n".join(
        f"  {name}"
        for name in sorted(set(re.findall(r"\bI[A-Z]\w+", body)))
        if name != "IReference"
    )
    return HEAD.format("routes") + REQUESTS_START.format(imports=imports) + body + "}\n"


def _request(route: Route, answer: Sequence[str]) -> tuple[str, str, str]:
    """A method's name, its comment, and an arrow function."""
    arguments: list[str] = []
    path: list[str] = []
    for part in route.path.split("/"):
        name = _camel(part.strip("{}"))
        if part.startswith("{"):
            arguments.append(f"{name}: {'IReference' if name in REFERENCES else 'string'}")
        path.append(name if part.startswith("{") else f"'{part}'")
    passed = []
    if route.body is not None:
        optional = not any(field.required for field in msgspec.structs.fields(route.body))
        arguments.append(f"body: I{route.body.__name__}{' = {}' if optional else ''}")
        passed.append("body")
    elif route.query:
        fields = "; ".join(f"{name}?: Value" for name in route.query)
        arguments.append(f"query: {{ {fields} }} = {{}}")
        passed.append("query")
    arguments.append("signal?: AbortSignal")
    passed.append("signal")
    sent = f"'{route.method}', [{', '.join(path)}], {{ {', '.join(passed)} }}"
    function = f"({', '.join(arguments)}) =>\n      this.send<{' | '.join(answer)}>({sent})"
    return _camel(route.call.rpartition(".")[2]), f"    /** {route.about}. */\n", function


def _render_kinds() -> str:
    shared = "".join(f"  '{kind.name}',\n" for kind in KINDS.values() if not kind.exclusive)
    return KINDS_FILE.format(
        head=HEAD.format("operation kinds"),
        shared=shared.rstrip(",\n"),
        cases="".join(map(_titles, KINDS.values())),
    )


def _titles(kind: OperationKind) -> str:
    """A case of the switch; translators find each text in it."""
    texts = [
        f"        {state}: trans.__({text!r}{', name' if '%1' in text else ''})"
        for state in ("running", "done", "cancelled", "failed")
        for text in [getattr(kind, state).replace("{}", "%1")]
    ]
    return f"    case '{kind.name}':\n      return {{\n" + ",\n".join(texts) + "\n      };\n"


def _camel(name: str) -> str:
    first, *others = name.replace("-", "_").split("_")
    return first + "".join(each.capitalize() for each in others)


def _interface(name: str, schema: dict[str, Any], interfaces: set[str], *, optional: bool) -> str:
    required = set(schema.get("required", ())) if optional else set(schema["properties"])
    lines = [*_comment(schema, ""), f"export interface I{name} {{"]
    for field, what in schema["properties"].items():
        mark = "" if field in required else "?"
        lines += _comment(what, "  ")
        lines += _declaration(f"  {field}{mark}:", _variants(what, interfaces), "    ")
    return "\n".join([*lines, "}", ""])


def _alias(name: str, schema: dict[str, Any]) -> str:
    variants, start = _variants(schema, set()), f"export type {name} ="
    return "\n".join([*_comment(schema, ""), *_declaration(start, variants, "  "), ""])


def _declaration(start: str, variants: list[str], indent: str) -> list[str]:
    """One line if it fits, or one below *start*, else a variant a line."""
    line = f"{start} {' | '.join(variants)};"
    if len(line) <= WIDTH or len(variants) == 1:
        return [line]
    below = f"{indent}{' | '.join(variants)};"
    if len(below) <= WIDTH:
        return [start, below]
    return [start, *(f"{indent}| {v}" for v in variants[:-1]), f"{indent}| {variants[-1]};"]


def _variants(schema: dict[str, Any], interfaces: set[str]) -> list[str]:
    """The members of a union; of any other type, itself alone."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix("#/")
        return [f"I{name}" if name in interfaces else name]
    if "anyOf" in schema:
        found = [v for part in schema["anyOf"] for v in _variants(part, interfaces)]
        return sorted(found, key="null".__eq__)  # last, whichever version of msgspec says it
    if "enum" in schema:
        return [f"'{value}'" for value in schema["enum"]]
    if not schema:
        return ["unknown"]
    kind = schema["type"]
    if kind == "array":
        inner = _variants(schema["items"], interfaces)
        return [f"{inner[0]}[]" if len(inner) == 1 else f"({' | '.join(inner)})[]"]
    if kind == "object":
        inner = _variants(schema.get("additionalProperties", {}), interfaces)
        return [f"{{ [key: string]: {' | '.join(inner)} }}"]
    return [{"integer": "number", "null": "null"}.get(kind, kind)]


def _comment(schema: dict[str, Any], indent: str) -> list[str]:
    """The description as a JSDoc comment; reStructuredText's double backticks become single."""
    text = re.sub(r"``(.+?)``", r"`\1`", schema.get("description", ""))
    if not text:
        return []
    paragraphs = [re.sub(r"\s+", " ", part).strip() for part in text.split("\n\n")]
    if len(paragraphs) == 1 and len(indent + paragraphs[0]) <= WIDTH - 7:
        return [f"{indent}/** {paragraphs[0]} */"]
    lines: list[str] = []
    for number, paragraph in enumerate(paragraphs):
        lines += [""] * (number > 0) + textwrap.wrap(paragraph, WIDTH - len(indent) - 3)
    return [
        f"{indent}/**",
        *(f"{indent} * {line}".rstrip() for line in lines),
        f"{indent} */",
    ]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, only compare")
    options = parser.parse_args(arguments)
    stale = [
        (path, text)
        for path, text in render().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path, text in stale:
        if options.check:
            print(f"{path.name} is out of date: run `make types`", file=sys.stderr)
        else:
            path.write_text(text, encoding="utf-8")
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())

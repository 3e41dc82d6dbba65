"""Writes labextension/src/api.ts: TypeScript types of what the server's REST and events carry.

They are made from the models' JSON schemas, formatted as Prettier wants them. With ``--check``
nothing is written; the exit code says whether the file is up to date.
"""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from pathlib import Path
from typing import Any

import msgspec

from jupyter_tpu.fleet import models

TARGET = Path(__file__).parent.parent / "labextension" / "src" / "api.ts"
WIDTH = 80  # Prettier's default

#: Bodies: fields with a default may be left out. Answers always carry every field.
REQUESTS = (
    models.CreateTPU,
    models.ConnectTPU,
    models.ChangePackages,
    models.RemoveEnvironment,
    models.DeleteTPU,
    models.DeleteQueued,
    models.ResetQueued,
    models.StartTPU,
    models.AdoptTPU,
    models.StopTPU,
    models.StopTrying,
    models.DisconnectTPU,
    models.OpenTunnel,
    models.OpenApp,
    models.VisitApp,
    models.OpenTensorBoard,
    models.ProfileTPU,
    models.CheckSetup,
    models.SetUpNetwork,
    models.AddSSHKey,
    models.Grant,
    models.FreeChips,
    models.SplitChips,
    models.SetGuard,
    models.KeepTPU,
    models.RemoveGuard,
    models.SetLogging,
    models.StartRun,
    models.RunInput,
    models.SyncProject,
    models.CopyFiles,
    models.ShareFolder,
    models.StartJob,
    models.StopJob,
    models.PassTokens,
    models.AttachMachine,
    models.DetachMachine,
)
ANSWERS = (
    models.ChipUse,
    models.ChipKernels,
    models.FreedChips,
    models.Problem,
    models.Catalog,
    models.FleetStatus,
    models.Quote,
    models.MachineCheck,
    models.MachineHost,
    models.GrantUse,
    models.NetworkSetup,
    models.SSHKeyStatus,
    models.TPULogging,
    models.Usage,
    models.QueuedResources,
    models.TPUList,
    models.TPU,
    models.Environment,
    models.EnvironmentLock,
    models.FoundPythons,
    models.InstalledPackage,
    models.Kernel,
    models.TPULoad,
    models.HostFile,
    models.Finding,
    models.Diagnosis,
    models.Token,
    models.MemoryProfiles,
    models.Operation,
    models.Profile,
    models.Tunnel,
    models.App,
    models.AppVisit,
    models.Run,
    models.RunOutput,
    models.SyncResult,
    models.CopyResult,
    models.ShareResult,
    models.SharedFolders,
    models.Job,
    models.JobLog,
    models.Change,
)

HEAD = """\
// Made by scripts/typescript_types.py from the server's models: don't edit, run `make types`.
"""


def render() -> str:
    """The whole file."""
    requests = {model.__name__ for model in REQUESTS}
    _, schemas = msgspec.json.schema_components([*REQUESTS, *ANSWERS], ref_template="#/{name}")
    interfaces = {name for name, schema in schemas.items() if "properties" in schema}
    parts = [
        _interface(name, schema, interfaces, optional=name in requests)
        if name in interfaces
        else _alias(name, schema)
        for name, schema in sorted(schemas.items())
    ]
    return HEAD + "\n" + "\n".join(parts)


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
    text = render()
    if options.check:
        if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text:
            return 0
        print(f"{TARGET.name} is not what the models say: run `make types`", file=sys.stderr)
        return 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

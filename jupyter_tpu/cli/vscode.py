"""``jupyter tpu vscode``: tasks in .vscode/tasks.json that create and connect a TPU.

The tasks call ``jupyter tpu api``, which finds the running server and its token: no secret and no
port is in the file. Everything else in it, comments too, is the user's and is kept.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import click

from ..commands.grammar import argument, command, examples, worker_option
from ..errors import InvalidInput, Reason, TPUError
from ..files import write_atomically
from .jsonc import Part, indent_at, insert, parse, parts

_UNIT = "    "
_INPUTS = ("tpuName", "tpuType", "tpuZone")


@command("vscode", epilog=examples("jupyter tpu vscode ~/my-project"))
@argument("dir", default=".", metavar="[DIR]", help="The project's folder.  [default: this one]")
@click.option(
    "--remote",
    metavar="NAME",
    help="Instead, print the command and the link that open VS Code on this TPU, in DIR there.",
)
@worker_option
def vscode(dir: str, remote: str | None, worker: int) -> None:
    """Write tasks for VS Code that create and connect TPUs."""
    if remote:
        from .ssh import open_remotely

        open_remotely(remote, worker, "" if dir == "." else dir)
        return
    folder = Path(dir).expanduser()
    if not folder.is_dir():
        raise TPUError(f"There is no folder {folder}.", Reason.NOT_FOUND)
    path = (folder / ".vscode" / "tasks.json").resolve()
    shown = os.path.relpath(path) if not dir.startswith(("/", "~")) else str(path)
    old = _read(path)
    wanted = tasks(_jupyter(folder.resolve())), inputs()
    try:
        new = merge(old, *wanted)
    except ValueError as error:
        raise TPUError(
            f"Can't add the tasks to {shown}: {error}.",
            Reason.CONFLICT,
            "Correct or move the file, and run this again. It was not changed.",
        ) from None
    if new == old:
        print(f"{shown} already has these tasks.")
        return
    _write(path, new)
    print(f"{shown}: wrote the tasks " + ", ".join(task["label"] for task in wanted[0]) + ".")
    print('In VS Code: "Tasks: Run Task". Most tasks need a running Jupyter server.')


def tasks(jupyter: str) -> list[dict[str, Any]]:
    """The tasks; *jupyter* is the command that runs ``jupyter``."""
    created = {
        "name": "${input:tpuName}",
        "type": "${input:tpuType}",
        "zone": "${input:tpuZone}",
        "connect": {},
    }
    one = "tpus/${input:tpuName}"
    return [
        _background(
            "TPU: start Jupyter server",
            "JupyterLab with the TPU panel, in the background; the other tasks work through it",
            [jupyter, "lab", "--no-browser"],
            begins="jupyter_tpu|Serving|extension",
            ends="is running at",
        ),
        _operation(
            "TPU: create and connect",
            "Creates a TPU, makes a Python environment with JAX on it and registers its kernel",
            [jupyter, "tpu", "api", "POST", "tpus", "--data", json.dumps(created)],
        ),
        _operation(
            "TPU: connect",
            "Makes an environment on a TPU that is there, and registers its kernel",
            [jupyter, "tpu", "api", "POST", f"{one}/connect", "--data", "{}"],
        ),
        _operation(
            "TPU: start", "Starts a stopped TPU", [jupyter, "tpu", "api", "POST", f"{one}/start"]
        ),
        _operation(
            "TPU: stop",
            "Stops a TPU; refused while kernels run on it",
            [jupyter, "tpu", "api", "POST", f"{one}/stop", "--data", "{}"],
        ),
        {
            "label": "TPU: list",
            "detail": "Lists TPUs, their state and what their types mean",
            "type": "process",
            "command": jupyter,
            "args": ["tpu", "list"],
            "problemMatcher": [],
            "presentation": {"reveal": "always", "clear": True},
        },
    ]


def _operation(label: str, detail: str, command: list[str]) -> dict[str, Any]:
    """A call that starts an operation, and its wait: "began" and "is done" are what api prints."""
    command = [*command, "--follow"]
    return _background(label, detail, command, begins=" began", ends=" is done|jupyter tpu: ")


def _background(
    label: str, detail: str, command: list[str], *, begins: str, ends: str
) -> dict[str, Any]:
    return {
        "label": label,
        "detail": detail,
        "type": "process",
        "command": command[0],
        "args": command[1:],
        "isBackground": True,
        "problemMatcher": {
            "owner": "jupyter-tpu",
            # VS Code asks for a pattern; no line that we print has this form.
            "pattern": {
                "regexp": "^(.+):(\\d+): problem: (.+)$",
                "file": 1,
                "line": 2,
                "message": 3,
            },
            "background": {"activeOnStart": True, "beginsPattern": begins, "endsPattern": ends},
        },
        "presentation": {"reveal": "always", "panel": "dedicated", "clear": True},
    }


def inputs() -> list[dict[str, Any]]:
    """The pickers: name, type with what it means, zone."""
    from .. import catalog
    from ..cloud import Target

    types, zones = catalog.types(), sorted(catalog.zones())
    own = Target.from_environment().zone
    name, type_, zone = _INPUTS
    return [
        {"id": name, "type": "promptString", "description": "Name of the TPU", "default": "my-tpu"},
        {
            "id": type_,
            "type": "pickString",
            "description": "Type of the TPU",
            "options": [
                {"label": f"{each.name} = {each.meaning}", "value": each.name} for each in types
            ],
            "default": "v5litepod-8"
            if any(t.name == "v5litepod-8" for t in types)
            else types[0].name,
        },
        {
            "id": zone,
            "type": "pickString",
            "description": "Zone of the TPU",
            "options": zones,
            "default": own if own in zones else zones[0],
        },
    ]


def merge(old: str, tasks: list[dict[str, Any]], inputs: list[dict[str, Any]]) -> str:
    """The text of tasks.json with these tasks and inputs, in place of those with the same label
    or ID; the rest is unchanged. Raises ValueError for a text that can't be merged into.
    """
    if not old.strip("\ufeff \t\r\n"):
        new = {"version": "2.0.0", "tasks": tasks, "inputs": inputs}
        return json.dumps(new, indent=_UNIT, ensure_ascii=False) + "\n"
    bom = "\ufeff" if old.startswith("\ufeff") else ""
    text = old[len(bom) :]
    root = parse(text)
    if not isinstance(root.value, dict):
        raise ValueError("it is not an object")
    if "version" not in root.value:
        text = _add(text, root, '"version": "2.0.0"')
    for member, key, wanted in (("tasks", "label", tasks), ("inputs", "id", inputs)):
        if not isinstance(root.value.get(member, []), list):
            raise ValueError(f'its "{member}" is not a list')
        if member not in root.value:
            text = _add(text, parse(text), f'"{member}": []')
        for each in wanted:
            text = _put(text, member, key, each)
    return bom + text


def _put(text: str, member: str, key: str, wanted: dict[str, Any]) -> str:
    """Replaces the item of the root's *member* that has the same *key*, or adds it."""
    array = {part.name: part for part in parts(text, parse(text))}[member]
    for item in parts(text, array):
        if isinstance(item.value, dict) and item.value.get(key) == wanted[key]:
            if item.value == wanted:
                return text
            lines = _dumps(text, wanted).splitlines()
            changed = (_newline(text) + indent_at(text, item.start)).join(lines)
            return text[: item.start] + changed + text[item.end :]
    return _add(text, array, _dumps(text, wanted))


def _add(text: str, part: Part, added: str) -> str:
    indent = indent_at(text, part.start) + _unit(text)
    return insert(text, part, added, indent, _newline(text))


def _dumps(text: str, value: Any) -> str:
    return json.dumps(value, indent=_unit(text), ensure_ascii=False)


def _unit(text: str) -> str:
    """One level of the file's own indentation."""
    match = re.search(r'^([ \t]+)"', text, re.MULTILINE)
    return match.group(1) if match else _UNIT


def _newline(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _jupyter(folder: Path) -> str:
    """How the tasks call ``jupyter``: the one beside this Python, which VS Code may not have on
    its PATH; relative to the folder if it is inside, so that the file can be shared.
    """
    beside = Path(sys.executable).with_name("jupyter")
    if not beside.exists():
        return "jupyter"
    try:
        return "${workspaceFolder}/" + beside.relative_to(folder).as_posix()
    except ValueError:
        return str(beside)


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return ""
    except UnicodeDecodeError:
        raise TPUError(
            f"{path} is not UTF-8 text.", Reason.CONFLICT, "It was not changed."
        ) from None
    except OSError as error:
        raise InvalidInput(f"Can't read {path}: {error.strerror}.") from None


def _write(path: Path, text: str) -> None:
    """In one step, so that a full disk or a kill leaves the old file."""
    try:
        path.parent.mkdir(exist_ok=True)
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
        write_atomically(path, text, mode=mode)
    except OSError as error:
        raise InvalidInput(f"Can't write {path}: {error.strerror}.") from None

"""``jupyter tpu vscode``: tasks in .vscode/tasks.json that create, connect and delete TPUs.

The tasks run ``jupyter tpu``, which uses a running server or none: no secret, no port and no path
of this computer is in the file, so it can be shared. Everything else in it, comments too, is the
user's and is kept.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import click

from ..errors import InvalidInput, Reason, TPUError
from ..local_files import write_atomically
from ..python_command import RUN_MODULE
from ..terminal.grammar import argument, command, examples
from ..terminal.parameters import host_option
from .jsonc import Part, indent_at, insert, parse, parts

_UNIT = "    "
#: The type that is proposed if the zone has it.
_TYPE = "v5litepod-8"


@command("vscode", epilog=examples("jupyter tpu vscode ~/my-project"))
@argument("dir", default=".", metavar="[DIR]", help="The project's folder.  [default: this one]")
@click.option(
    "--remote",
    metavar="NAME",
    help="Instead, print the command and the link that open VS Code on this TPU, in DIR on host 0.",
)
@host_option
def vscode(dir: str, remote: str | None, number: int) -> None:
    """Write tasks for VS Code that create and delete TPUs."""
    if remote:
        from .ssh_config import open_remotely

        open_remotely(remote, number, "" if dir == "." else dir)
        return
    folder = Path(dir).expanduser()
    if not folder.is_dir():
        raise TPUError(f"The folder {folder} does not exist.", Reason.NOT_FOUND)
    path = (folder / ".vscode" / "tasks.json").resolve()
    shown = os.path.relpath(path) if not dir.startswith(("/", "~")) else str(path)
    old = _read(path)
    additions = tasks(), inputs()
    try:
        new = merge(old, *additions)
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
    print(f"{shown}: wrote the tasks " + ", ".join(task["label"] for task in additions[0]) + ".")
    if reason := _zone_reason():
        print(reason)
    print(
        'In VS Code: "Tasks: Run Task". The tasks use the Python that you choose there with '
        '"Python: Select Interpreter"; it must have jupyter-tpu.'
    )


def tasks() -> list[dict[str, Any]]:
    """The tasks. They need no running server, and ask in their terminal what a command asks."""
    name = "${input:tpuName}"
    create = ["create", name, "--type", "${input:tpuType}", "--zone", "${input:tpuZone}"]
    return [
        {
            **_task("start Jupyter server", "JupyterLab with the TPU panel, in the background", []),
            "args": [*RUN_MODULE, "jupyterlab", "--no-browser"],
            "isBackground": True,
            "problemMatcher": _until(begins="jupyter_tpu|Serving|extension", ends="is running at"),
        },
        _task(
            "create and connect",
            "Creates a TPU and a Python environment with JAX on it, and registers its kernel",
            [*create, "--connect"],
        ),
        _task(
            "connect",
            "Creates an environment on an existing TPU, and registers its kernel",
            ["connect", name],
        ),
        _task(
            "disconnect",
            "Removes the kernels of a TPU from Jupyter; the TPU keeps running",
            ["disconnect", name],
        ),
        _task(
            "run this file",
            "Sends the open Python file to all hosts of a TPU, and runs it there",
            ["run", "--tpu", name, "--no-stdin", "${file}"],
        ),
        _task("start", "Starts a stopped TPU", ["start", name]),
        _task("stop", "Stops a TPU; its disk is kept", ["stop", name]),
        _task("delete", "Deletes a TPU and everything on its disk", ["delete", name]),
        _task("list", "Lists TPUs, their state and what their types mean", ["list"]),
    ]


def _task(label: str, detail: str, args: list[str]) -> dict[str, Any]:
    """A task that runs ``jupyter tpu`` by the Python that the user selected in VS Code, so that
    the file has no path of one computer.
    """
    return {
        "label": f"TPU: {label}",
        "detail": detail,
        "type": "process",
        "command": "${command:python.interpreterPath}",
        "args": [*RUN_MODULE, "jupyter_tpu.cli", *args],
        "problemMatcher": [],
        # With the focus, so that the user can answer the command's questions.
        "presentation": {"reveal": "always", "focus": True, "panel": "dedicated", "clear": True},
    }


def _until(*, begins: str, ends: str) -> dict[str, Any]:
    """What tells VS Code that a task in the background has started."""
    return {
        "owner": "jupyter-tpu",
        # VS Code asks for a pattern; no line that we print has this form.
        "pattern": {
            "regexp": "^(.+):(\\d+): problem: (.+)$",
            "file": 1,
            "line": 2,
            "message": 3,
        },
        "background": {"activeOnStart": True, "beginsPattern": begins, "endsPattern": ends},
    }


def inputs() -> list[dict[str, Any]]:
    """The pickers: name, type with what it means, zone with the types that it has."""
    from .. import catalog

    type, zone, _ = _defaults()
    return [
        {
            "id": "tpuName",
            "type": "promptString",
            "description": "Name of the TPU",
            "default": "my-tpu",
        },
        {
            "id": "tpuType",
            "type": "pickString",
            "description": "Type of the TPU",
            "options": [
                {"label": f"{type_.name} = {type_.meaning}", "value": type_.name}
                for type_ in catalog.types()
            ],
            "default": type,
        },
        {
            "id": "tpuZone",
            "type": "pickString",
            "description": "Zone of the TPU, which must have the type",
            "options": [{"label": _zone_label(zone), "value": zone} for zone in catalog.zones()],
            "default": zone,
        },
    ]


def _defaults() -> tuple[str, str, str]:
    """A type, a zone that has it, and gcloud's default zone. The zone is the default one if it has
    any type, else the nearest.
    """
    from .. import catalog
    from ..cloud import Target

    home = Target.from_environment().zone or ""
    there = [type_.name for type_ in catalog.types_in(home)]
    if there:
        return (_TYPE if _TYPE in there else there[0]), home, home
    nearest = catalog.nearest_zones(catalog.accelerator_type(_TYPE).zones, home)
    return _TYPE, nearest[0], home


def _zone_reason() -> str:
    """Why the proposed zone is not gcloud's; "" if it is."""
    from ..fleet.lifecycle.choices import another_zone

    type, zone, home = _defaults()
    return another_zone(type, home, zone)


def _zone_label(zone: str) -> str:
    """ "us-west4-a: v5litepod"."""
    from .. import catalog

    kinds = dict.fromkeys(type_.name.rpartition("-")[0] for type_ in catalog.types_in(zone))
    return f"{zone}: {', '.join(kinds)}"


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
    for member, key, entries in (("tasks", "label", tasks), ("inputs", "id", inputs)):
        if not isinstance(root.value.get(member, []), list):
            raise ValueError(f'its "{member}" is not a list')
        if member not in root.value:
            text = _add(text, parse(text), f'"{member}": []')
        for entry in entries:
            text = _put(text, member, key, entry)
    return bom + text


def _put(text: str, member: str, key: str, entry: dict[str, Any]) -> str:
    """Replaces the item of the root's *member* that has the same *key*, or adds it."""
    array = {part.name: part for part in parts(text, parse(text))}[member]
    for item in parts(text, array):
        if isinstance(item.value, dict) and item.value.get(key) == entry[key]:
            if item.value == entry:
                return text
            lines = _dumps(text, entry).splitlines()
            changed = (_newline(text) + indent_at(text, item.start)).join(lines)
            return text[: item.start] + changed + text[item.end :]
    return _add(text, array, _dumps(text, entry))


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

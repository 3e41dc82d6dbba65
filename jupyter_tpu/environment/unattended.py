"""The startup script of a TPU that starts its work before anyone connects to it.

Google runs it as root at each boot of each host. It has all that it needs but what comes from the
package index: the agent, the programs that create an environment, and what is to be done. Secrets
have no place in it, since everybody who may see the TPU can read it.
"""

from __future__ import annotations

import base64
import bz2
import json
import shlex
from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs

from ..errors import InvalidInput
from ..on_host.packing import Bundle, agent_bundle, modules, program, startup_boot
from ..ssh.host_program import SHELL
from . import pythons
from .locks import made_for
from .models import EnvironmentSpec
from .requirements import (
    framework_of,
    index_options,
    jaxkit_bundle,
    requirements,
    without_libtpu,
)

#: Bytes of one value of the metadata (cloud.google.com/compute/docs/metadata).
LONGEST_VALUE_BYTES = 256 * 1024
#: Before the script that a TPU was to have beside ours, and what runs that at the same time.
_OWN = "# The TPU's own startup script:\n"
_RUN_OWN = """own=$(mktemp) && base64 -d > "$own" <<'OWN' && chmod 700 "$own" && "$own"
{text}
OWN
code=$?; rm -f "$own"; wait; exit $code
"""
#: The program that the script runs.
_MAIN = "unattended.main"
_HEAD = "#!/bin/sh\n# Made by jupyter-tpu: prepares this host and starts a job, once.\n"


class GuardRules(Struct, frozen=True, kw_only=True):
    """What the daemon's ``set_guard`` takes on the first host and on the others; None: nothing.

    In place of ``cost_until`` a rule has ``cost_seconds``: how long the TPU may run from now on.
    """

    first: Mapping[str, Any]
    others: Mapping[str, Any] | None


class UnattendedStart(Struct, frozen=True, kw_only=True):
    """A job that begins without us.

    user: the login user of the hosts. job: its id. command: of the shell; "": only the guard is
        set.
    python_path: of a Python on the hosts, which is used as it is; "": *environment* is created.
    guard: None: there is none.
    own: the startup script that the TPU was to have, which runs at the same time; "": none.
    """

    user: str
    job: str
    command: str
    environment: EnvironmentSpec
    emulated: bool
    python_path: str = ""
    guard: GuardRules | None = None
    own: str = ""


def startup_script(start: UnattendedStart) -> str:
    """The script; raises INVALID for one that is longer than metadata can be."""
    request = {
        "job": start.job,
        "command": start.command,
        "python_path": start.python_path,
        "environment": _environment(start.environment, emulated=start.emulated),
        "agent": _packed(agent_bundle()),
        "guard": None if start.guard is None else structs.asdict(start.guard),
    }
    data = program(_MAIN, level=0) + json.dumps(request).encode()
    text = base64.b85encode(bz2.compress(data)).decode()  # of all, these two give the shortest
    command = shlex.join(("sh", "-c", SHELL, "sh", startup_boot(), start.user))
    background = " &" if start.own else ""
    script = f"{_HEAD}{command} <<'END'{background}\n{_lines(text)}\nEND\n"
    if start.own:
        own = _lines(base64.b64encode(start.own.encode()).decode())
        script += _OWN + _RUN_OWN.format(text=own)
    if len(script) > LONGEST_VALUE_BYTES:
        raise InvalidInput(
            f"The command and its environment make a startup script of {len(script) // 1024} KiB; "
            f"it can have {LONGEST_VALUE_BYTES // 1024} KiB.",
            "Give a shorter requirements file, setup script or startup script.",
        )
    return script


def is_unattended(script: str) -> bool:
    """Whether *script* is a :func:`startup_script`, and nothing else."""
    return script.startswith(_HEAD) and _OWN not in script


def own_script(script: str) -> str:
    """What a startup script has beside ours; "" if it has nothing."""
    if not script.startswith(_HEAD):
        return script
    text = script.partition(_OWN)[2].partition("<<'OWN'")[2].partition("\n")[2]
    return base64.b64decode(text.partition("\nOWN\n")[0]).decode()


def _lines(text: str) -> str:
    """In lines of 4,000 characters: some shells and editors take no longer ones."""
    return "\n".join(text[start : start + 4000] for start in range(0, len(text), 4000))


def _packed(files: Bundle) -> dict[str, Any]:
    """What `calls.archive.zipped` gets there; all is compressed together. None: a module of the
    program, which has its text.
    """
    program_texts = modules(_MAIN)
    contents: dict[str, str | None] = {}
    for name, content in files.contents.items():
        text = content.decode()
        module = name.removesuffix(".py").replace("/", ".")
        contents[name] = None if text and program_texts.get(module) == text else text
    return {"hash": files.hash, "files": contents}


def _environment(spec: EnvironmentSpec, *, emulated: bool) -> dict[str, Any]:
    """The arguments of ``on_host.unattended.main.prepare``."""
    required, jax = requirements(spec, emulated=emulated), framework_of(spec) == "jax"
    python, usual = pythons.usual(spec.python, made_for(spec.lock))
    return {
        "name": spec.environment,
        "python": python,
        "usual": usual,
        "requirements": required,
        "index": index_options(required),
        "lock": without_libtpu(spec.lock or "") if emulated and jax else spec.lock or "",
        "resolve_again": spec.resolve_again,
        "packages": spec.packages,
        # Who connects brings the rest.
        "jaxkit": _packed(jaxkit_bundle(compiles=False)) if jax else None,
        "setup": spec.setup.requested,
    }

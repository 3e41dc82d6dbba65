"""What a coding agent may run: commands, magics and tools, each by its name, with its options.

What is not named here is refused, so that a new command or option is closed to agents until
somebody has thought of it. What goes to the server is decided once more there (`fleet.agents`): by
the TPU, the budget and the folder. Here it is decided what may run at all as an agent. Nothing that
prints or passes a token, a key, an SSH configuration or known hosts of a person may.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import click
from click.core import ParameterSource

ALWAYS = ""
PLANNED = "by a plan, inside the budget"
OWN = "on a TPU that an agent has created"
OPEN = "on a TPU that an agent has created, or that a person has opened to agents"
FILES = f"{OPEN}; files of the folder for agents"
OPERATION = "of an operation that an agent has begun, or on a TPU that an agent has created"
LOCAL = "on this computer only"
ROUTES = "as the server decides for each route"

#: Options that say only how a command asks, waits and prints.
PLAIN = frozenset(
    (
        *("--filter", "--format", "--json", "--lang", "--limit", "--no-wait", "--project"),
        *("--sort-by", "--verbose", "--watch", "--yes", "--zone"),
    )
)
_CONTENT = "--python --packages --requirements --pyproject --lock --then-run"


class Access(NamedTuple):
    """condition: "" if there is none. options: by their first names, beside `PLAIN`."""

    condition: str = ALWAYS
    options: frozenset[str] = frozenset()


def _access(condition: str = ALWAYS, options: str = "") -> Access:
    return Access(condition, frozenset(options.split()))


#: The commands of `jupyter tpu`, by their words.
COMMANDS: Mapping[str, Access] = {
    "create": _access(
        PLANNED,
        f"{_CONTENT} --env --plan --plan-only --type --spot --connect --max-price --version --api "
        "--time --max-idle --max-cost --until --then-delete --topology --internal-ips "
        "--description --shielded-secure-boot",
    ),
    "list": _access(),
    "connect": _access(OPEN, f"{_CONTENT} --env"),
    "describe": _access(),
    "stop": _access(OWN),
    "delete": _access(OWN),
    "disconnect": _access(OWN),
    "hunt list": _access(),
    "hunt describe": _access(),
    "hunt wait": _access(),
    "hunt stop": _access(OPERATION),
    "queued list": _access(),
    "queued describe": _access(),
    "plan": _access(LOCAL, "--type --args --mesh --shard --axes --max-devices --tier --timeout"),
    "run": _access(
        f"{OPEN}; --once: {PLANNED}",
        "--tpu --worker --cwd -w --timeout --env --stdin --once --type --spot --max-cost "
        "--max-price --output --keep --retries",
    ),
    "copy": _access(FILES, "--worker --overwrite --parents --recurse"),
    "sync": _access(FILES, "--dry-run --delete --overwrite --only --max-file --max-total --worker"),
    "job start": _access(
        OPEN, "--tpu --worker --cwd --env --name --restart-with-tpu --end-together"
    ),
    "job list": _access(),
    "job logs": _access(OPEN, "--follow --from --tail --search --worker --attempt --numbers"),
    "logs": _access(OPEN, "--follow --from --tail --search --worker --attempt --numbers"),
    "job why": _access(OPEN),
    "job stop": _access(OWN, "--patience"),
    "job delete": _access(OWN),
    "tunnel list": _access(),
    "serve list": _access(),
    "top": _access(ALWAYS, "--worker --every --once"),
    "chips list": _access(ALWAYS, "--worker"),
    "profile": _access(OPEN, "--seconds --worker --port --memory --no-browser"),
    "env list": _access(f"--found: {OPEN}", "--found"),
    "env create": _access(OPEN, _CONTENT),
    "env lock": _access(OPEN),
    "env packages": _access(ALWAYS, "--env"),
    "env add": _access(OWN, "--env"),
    "env remove": _access(OWN, "--env"),
    "env use": _access(OPEN, "--env --install-ipykernel"),
    "kernel list": _access(),
    "kernel stop": _access(OWN),
    "kernel add": _access(OPEN, "--env"),
    "token list": _access(),
    "usage": _access(ALWAYS, "--projects"),
    "guard describe": _access(),
    "budget show": _access(),
    "budget spending": _access(),
    "grant list": _access(),
    "prices list": _access(),
    "doctor": _access(f"with NAME: {OPEN}", "--type --version --network --spot"),
    "operation list": _access(),
    "operation cancel": _access(OPERATION),
    "logging describe": _access(),
    "api": _access(ROUTES, "--data --server --follow"),
    "skill": _access(),
    "mcp": _access(ALWAYS, "--config"),
}

#: The commands of `%tpu`.
MAGICS: Mapping[str, Access] = {
    "list": _access(),
    "hunt list": _access(),
    "hunt describe": _access(),
    "hunt stop": _access(OPERATION),
    "budget show": _access(),
    "budget spending": _access(),
    "grant list": _access(),
    "guard describe": _access(),
    "doctor": COMMANDS["doctor"],
    "job start": COMMANDS["job start"],
    "job list": _access(),
    "job logs": COMMANDS["job logs"],
    "job why": COMMANDS["job why"],
    "job stop": COMMANDS["job stop"],
    "job delete": COMMANDS["job delete"],
    "usage": COMMANDS["usage"],
    "token list": _access(),
    "chips list": COMMANDS["chips list"],
    "top": _access(ALWAYS, "--worker"),
    "run": _access(OPEN, "--tpu --worker --cwd --timeout --env"),
    "tunnel list": _access(),
    "sync": _access(FILES, "--to --pull --overwrite --tpu"),
    "copy": _access(FILES, "--worker --overwrite --parents"),
}

#: The cells of `%%tpu`, by the word behind it; "" would be for a TPU, whose kernel no server is
#: asked for.
CELLS: Mapping[str, Access] = {"compile": _access(LOCAL)}

#: The tools of MCP.
TOOLS: Mapping[str, Access] = {
    "tpu_list": _access(),
    "tpu_describe": _access(),
    "tpu_budget": _access(),
    "tpu_plan": _access(),
    "tpu_create": _access(PLANNED),
    "tpu_hunt": _access(PLANNED),
    "tpu_operations": _access(),
    "tpu_operation": _access(),
    "tpu_cancel": _access(OPERATION),
    "tpu_connect": _access(OPEN),
    "tpu_run": _access(OPEN),
    "tpu_run_output": _access(OPEN),
    "tpu_execute": _access(OPEN),
    "tpu_output": _access("of its own cells"),
    "tpu_interrupt": _access("its own kernel"),
    "tpu_job_start": _access(OPEN),
    "tpu_job_log": _access(OPEN),
    "tpu_job_why": _access(OPEN),
    "tpu_job_stop": _access(OWN),
    "tpu_servers": _access(),
    "tpu_copy": _access(FILES),
    "tpu_doctor": _access(f"with a name: {OPEN}"),
    "tpu_top": _access(),
    "tpu_memory": _access(OPEN),
    "tpu_compile_check": _access(LOCAL),
    "tpu_compare_types": _access(LOCAL),
    "tpu_profile": _access(OPEN),
    "tpu_stop": _access(OWN),
    "tpu_delete": _access(OWN),
}

#: By what was typed before a command's words.
_GRAMMARS: Mapping[str, Mapping[str, Access]] = {"%tpu": MAGICS, "%%tpu": CELLS}


def require_command(ctx: click.Context) -> None:
    """Raises PERMISSION where a coding agent uses a command or option that is not named above."""
    from ..agent_token import acts_as_agent, refusal

    if not acts_as_agent():
        return
    root = ctx.find_root().info_name or ""
    words = words_of(ctx)
    access = _GRAMMARS.get(root, COMMANDS).get(words)
    if access is None:
        raise refusal("`" + f"{root} {words}".strip() + "`")
    for parameter in ctx.command.get_params(ctx):
        name = parameter.opts[0]
        if _is_given_option(ctx, parameter) and name not in PLAIN | access.options:
            raise refusal(f"`{root} {words} {name}`")


def require_cell(word: str) -> None:
    """As `require_command`, for a `%%tpu` cell."""
    from ..agent_token import require_person

    if word not in CELLS:
        require_person(f"`%%tpu {word}`")


def _is_given_option(ctx: click.Context, parameter: click.Parameter) -> bool:
    source = ctx.get_parameter_source(str(parameter.name))
    given = source not in (None, ParameterSource.DEFAULT)
    return given and isinstance(parameter, click.Option)


def words_of(ctx: click.Context) -> str:
    """A command's words below its grammar's root: "job start"."""
    words: list[str] = []
    while ctx.parent is not None:
        words.insert(0, ctx.info_name or "")
        ctx = ctx.parent
    return " ".join(words)

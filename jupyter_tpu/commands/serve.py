"""``jupyter tpu serve``: servers of models on a TPU, and local ports that lead to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ..errors import Reason, TPUError
from ..terminal.field_options import options_of
from ..terminal.grammar import Group, argument, examples, program
from ..terminal.operations import left_running, wait_with_notes
from ..terminal.parameters import tpu_argument
from ..terminal.printing import json_option, list_options, note, print_json, print_list
from ..terminal.questions import confirm, yes_option
from ..terminal.session import FleetSession, open_session
from ..terminal.tables import problem_text, state_text, table
from ..terminal.waiting import no_wait_option
from .job import log_options
from .job import logs as job_logs
from .job_text import variables
from .scripts import as_text, pass_env_option

if TYPE_CHECKING:
    from ..fleet.models import ModelServer

_id_argument = argument("id", metavar="SERVER", help="The server's ID; `serve list` shows it.")


@click.group("serve", cls=Group, aliases={"log": "logs", "ps": "list", "run": "start"})
def serve() -> None:
    """Serve models from a TPU: one command starts a server and forwards a local port to it.

    A server runs as a job. Its host checks its health, restarts it when it exits or no longer
    answers, and counts its requests, so that the guard stops a TPU whose server is not used. It
    needs neither this computer nor a Jupyter server to continue. The local port does.
    """


@serve.command(
    "start",
    epilog=examples(
        "jupyter tpu serve start my-tpu --port 8080 --health /health -- python server.py",
        "jupyter tpu serve start my-tpu --vllm google/gemma-3-1b-it -- --max-model-len 4096",
        "jupyter tpu serve start my-tpu --ray app:app --cwd project",
    ),
)
@tpu_argument()
@argument(
    "command",
    nargs=-1,
    type=click.UNPROCESSED,
    metavar="[-- CMD...]",
    help="The server's command; no shell changes it. With --vllm: more arguments of vLLM.",
)
@options_of("StartModelServer")
@pass_env_option
@click.option("--env-file", metavar="FILE", help="A file with lines VARIABLE=VALUE for the server.")
@yes_option("Let requests start the TPU without asking, whatever it costs.")
@no_wait_option
@json_option
def start(
    name: str,
    command: tuple[str, ...],
    fields: dict[str, Any],
    passed: tuple[str, ...],
    env_file: str | None,
    yes: bool,
    no_wait: bool,
    as_json: bool,
) -> None:
    """Start a server on a TPU, and wait until it is healthy.

    The command gets its port as the variable PORT, and should listen on 127.0.0.1 only. Ctrl-C
    ends it.
    """
    from ..fleet.models import StartModelServer

    request = StartModelServer(
        command=as_text(list(command)),
        variables=variables(env_file, passed),
        confirm_price=yes,
        **fields,
    )
    with open_session() as session:
        has_server = session.server is not None
        if request.start_on_request and not has_server:
            raise TPUError(
                "Requests can start a TPU only while a Jupyter server runs.",
                Reason.CONFLICT,
                "Start JupyterLab first, or leave out --start-on-request.",
            )
        request.tunnel = has_server
        _start(session, name, request, no_wait=no_wait, as_json=as_json)


def _start(session: FleetSession, name: str, request: Any, *, no_wait: bool, as_json: bool) -> None:
    import msgspec

    from ..fleet.models import ModelServer

    try:
        operation = session.call(session.fleet.serving.start(name, request))
    except TPUError as error:
        if error.reason is not Reason.PRICE or request.max_price is not None:
            raise
        confirm(
            f"{error.message} May requests to this server start {name}?",
            "Add --max-price USD, or --yes.",
        )
        request.confirm_price = True
        operation = session.call(session.fleet.serving.start(name, request))
    if no_wait:
        if as_json:
            return print_json(operation)
        return note(left_running(session, operation))
    wait_with_notes(session, operation)
    ended = session.call(session.fleet.operations.get(operation.id))
    server = msgspec.convert(ended.result, ModelServer)
    if as_json:
        return print_json(server)
    if server.url:
        print(f"{server.name} on {server.tpu}: {server.url}")
    else:
        print(f"{server.name} on {server.tpu}: healthy, on port {server.port} of the host")
        note(
            "No Jupyter server runs, so no local port is kept open. Open one: "
            f"{program()} tunnel {name} {server.port}"
        )
    if server.problem is not None:
        note(problem_text(server.problem))
    note(f"Its output: {program()} serve logs {name} {server.id} --follow")
    return None


@serve.command("list")
@tpu_argument(required=False)
@list_options
def list_servers(name: str | None) -> None:
    """List the servers of a TPU, or of all TPUs."""
    with open_session() as session:
        serving = session.fleet.serving
        servers = session.call(serving.all() if name is None else serving.list(name))
    print_list(servers, server_table)


def server_table(servers: Sequence[ModelServer]) -> str:
    """The servers, and below them what is wrong with each."""
    if not servers:
        return f"No servers. Start one: {program()} serve start NAME --port P -- CMD"
    heads = ("ID", "TPU", "NAME", "STATE", "URL", "PORT", "REQUESTS/S", "TOKENS/S", "WAITING",
             "RESTARTS")  # fmt: skip
    rows = [
        (
            server.id,
            server.tpu,
            server.name,
            state_text(server.state),
            server.url,
            str(server.port),
            _figure(server.requests),
            _figure(server.tokens),
            _figure(server.waiting),
            str(server.restarts) if server.restarts else "",
        )
        for server in servers
    ]
    remarks = [f"{server.id}: {server.cause}" for server in servers if server.cause]
    remarks += [f"{server.id}: {problem_text(server.problem)}" for server in servers
                if server.problem is not None]  # fmt: skip
    return "\n".join([table(heads, rows), *remarks])


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


@serve.command("logs", epilog=examples("jupyter tpu serve logs my-tpu --follow"))
@tpu_argument()
@log_options
@click.pass_context
def logs(ctx: click.Context, name: str, id: str | None, **shown: Any) -> None:
    """Print the output of a server, starting at any line. Without JOB: of the newest server."""
    if id is None:
        with open_session() as session:
            servers = session.call(session.fleet.serving.list(name))
        if not servers:
            raise TPUError(f"{name} has no server.", Reason.NOT_FOUND)
        id = servers[-1].id
    ctx.invoke(job_logs, name=name, id=id, **shown)


@serve.command("stop")
@tpu_argument()
@_id_argument
@options_of("StopJob", "patience")
@yes_option("Stop it without asking.")
@json_option
def stop(name: str, id: str, fields: dict[str, Any], yes: bool, as_json: bool) -> None:
    """Stop a server, and close its local port."""
    from ..fleet.models import StopJob

    with open_session() as session:
        server = session.call(session.fleet.serving.get(name, id))
        if not yes and server.state not in ("stopped", "failed"):
            confirm(
                f"Stop the server {server.name} ({server.id}, {server.state}) on {server.tpu}?",
                "Add --yes to stop it without asking.",
            )
        stopped = session.call(session.fleet.serving.stop(name, id, StopJob(**fields)))
    if as_json:
        return print_json(stopped)
    print(f"Server {stopped.id}: {stopped.state}")

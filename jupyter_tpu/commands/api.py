"""``jupyter tpu api``: one call to the REST interface of the running server.

For editors and scripts: it finds the server and its token, so that nothing has to be configured
and no secret is in a command, a task or a process list.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import InvalidInput, Reason, TPUError
from ..terminal.grammar import argument, command, examples
from ..terminal.printing import print_json
from ..terminal.streams import write_plain

if TYPE_CHECKING:
    from ..fleet.client import FleetClient, RESTResponse
    from ..fleet.servers import Server
    from ..terminal.session import FleetSession

#: Paths of the server's own begin with these; any other is under jupyter-tpu/v1/.
_OWN_PATHS = ("jupyter-tpu/", "api/")


@command(
    "api",
    epilog=examples(
        "jupyter tpu api GET tpus",
        """jupyter tpu api POST tpus --data '{"name": "my-tpu", "type": "v5litepod-8"}' --follow""",
    ),
)
@argument("method", metavar="METHOD", help="GET, POST or DELETE.")
@argument("path", metavar="PATH", help="A path under jupyter-tpu/v1/, such as tpus or catalog.")
@click.option("--data", metavar="JSON", help="The body: JSON, @FILE, or - for standard input.")
@click.option(
    "--server", "url", metavar="URL", help="The server to call.  [default: the newest of yours]"
)
@click.option("--follow", is_flag=True, help="Wait for the operation that the call starts.")
def api(method: str, path: str, data: str | None, url: str | None, follow: bool) -> None:
    """Call the REST interface of your running Jupyter server."""
    from ..fleet.client import error_of
    from ..links import core_thread
    from ..terminal.session import FleetSession

    body = _body(data)
    path = _path(path)
    core = core_thread()
    server, client = core.wait(_find(url))
    try:
        answer = core.wait(client.fetch(method.upper(), path, body))
        if answer.status >= 400:
            raise error_of(answer, server.url)
        if follow and answer.status == 202:
            _follow(FleetSession(client, server), answer)
        else:
            _show(answer)
    finally:
        core.wait(client.close())


async def _find(url: str | None) -> tuple[Server, FleetClient]:
    """The server with that URL, or the newest that has the extension; with its client."""
    from ..fleet.client import PREFIX, UntrustedServer
    from ..fleet.servers import running_servers, server_at
    from ..terminal.session import client_of

    if url is not None:
        server = server_at(url)
        return server, client_of(server)
    servers = running_servers()
    locked = ""
    for server in servers:
        if server.password:
            locked = f" The server at {server.url} requires a password, so it can't be used."
            continue
        client = client_of(server)
        try:
            # The document costs no call to Google, so that this is cheap with any server.
            if (await client.fetch("GET", PREFIX + "openapi.json")).status == 200:
                return server, client
        except UntrustedServer as error:
            locked = f" {error.message}"
        except TPUError:
            pass  # it is ending, or hangs: try the next one
        await client.close()
    none = f"No Jupyter server of yours is running.{locked}"
    raise TPUError(
        f"No Jupyter server of yours has the jupyter-tpu extension.{locked}" if servers else none,
        Reason.NOT_FOUND,
        "Start one with `jupyter lab` where jupyter-tpu is installed.",
    )


def _path(given: str) -> str:
    """The path under the server's base URL. A URL is refused: the token is only for our server."""
    if "://" in given:
        raise InvalidInput(
            f"{given} is a URL; a path is needed.",
            "Give only the path, such as tpus. Choose the server with --server URL.",
        )
    from ..fleet.client import PREFIX

    path = given.lstrip("/")
    if any(part in (".", "..") for part in path.partition("?")[0].split("/")):
        raise InvalidInput(f"{given} is not a path of the REST interface.")
    return path if f"{path}/".startswith(_OWN_PATHS) else PREFIX + path


def _body(data: str | None) -> bytes | None:
    """The body that --data gives: JSON itself, @FILE, or - for standard input."""
    if data is None:
        return None
    try:
        if data == "-":
            content = sys.stdin.buffer.read()
        elif data.startswith("@"):
            content = Path(data[1:]).expanduser().read_bytes()
        else:
            content = data.encode()
    except OSError as error:
        raise InvalidInput(f"Can't read {data[1:]}: {error.strerror}.") from None
    try:
        json.loads(content)
    except ValueError as error:
        raise InvalidInput(f"--data is not JSON: {error}.") from None
    return content


def _follow(session: FleetSession, answer: RESTResponse) -> None:
    import msgspec

    from ..fleet.models import Operation
    from ..terminal.waiting import finish_all

    operation = msgspec.json.decode(answer.body, type=Operation)
    about = f"{operation.tpu}: {operation.kind}" if operation.tpu else operation.kind
    print(f"{about} began", flush=True)
    ended = finish_all(session, operation, sys.stdout)
    print(f"{about} is done")
    if ended.result is not None:
        print_json(ended.result)


def _show(answer: RESTResponse) -> None:
    if answer.content_type == "application/json" and answer.body:
        print_json(json.loads(answer.body))
    elif answer.body:
        text = answer.body.decode(errors="replace")
        if sys.stdout.isatty():
            print(text, end="")
        else:
            write_plain(sys.stdout, text)  # a file of a host, perhaps

"""``jupyter tpu api``: one call to the REST interface of the running server.

For editors and scripts: it finds the server and its token, so that nothing has to be configured
and no secret stands in a command, a task or a process list.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ..commands.session import Session, client_of
from ..errors import Reason, TPUError
from ..fleet.servers import Server, running_servers, server_at
from .console import print_json

if TYPE_CHECKING:
    from ..fleet.client import FleetClient, Response

#: Under these a path is the server's own; any other is under jupyter-tpu/v1/.
_OWN_PATHS = ("jupyter-tpu/", "api/")


def api(chosen: argparse.Namespace) -> None:
    from ..fleet.client import error_of
    from ..links import core_thread

    body = _body(chosen.data)
    path = _path(chosen.path)
    core = core_thread()
    server, client = core.wait(_find(chosen.server))
    try:
        answer = core.wait(client.fetch(chosen.method.upper(), path, body))
        if answer.status >= 400:
            raise error_of(answer, server.url)
        if chosen.follow and answer.status == 202:
            _follow(Session(client, server), answer)
        else:
            _show(answer)
    finally:
        core.wait(client.close())


async def _find(url: str | None) -> tuple[Server, FleetClient]:
    """The server with that URL, or the newest that has the extension; with its client."""
    from ..fleet.client import PREFIX

    if url is not None:
        server = server_at(url)
        return server, client_of(server)
    servers = running_servers()
    locked = ""
    for server in servers:
        if server.password:
            locked = f" The one at {server.url} asks for a password, so there is no token for it."
            continue
        client = client_of(server)
        try:
            # The document costs no call to Google, so that this is cheap with any server.
            if (await client.fetch("GET", PREFIX + "openapi.json")).status == 200:
                return server, client
        except TPUError:
            pass  # it is ending, or hangs: the next one, then
        await client.close()
    there = "has the jupyter-tpu extension" if servers else "is running"
    raise TPUError(
        f"No Jupyter server of yours {there}.{locked}",
        Reason.NOT_FOUND,
        "Start one with `jupyter lab` where jupyter-tpu is installed.",
    )


def _path(given: str) -> str:
    """The path under the server's base URL; a whole URL is refused, the token is only for ours."""
    if "://" in given:
        raise TPUError(
            f"{given} is a URL, and a path is needed.",
            Reason.INVALID,
            "Give the path alone (tpus, say), and the server with --server URL.",
        )
    from ..fleet.client import PREFIX

    path = given.lstrip("/")
    if any(part in (".", "..") for part in path.partition("?")[0].split("/")):
        raise TPUError(f"{given} is not a path of the interface.", Reason.INVALID)
    return path if f"{path}/".startswith(_OWN_PATHS) else PREFIX + path


def _body(data: str | None) -> bytes | None:
    """What --data gives: JSON itself, @FILE, or - for standard input."""
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
        raise TPUError(f"{data[1:]} can't be read: {error.strerror}.", Reason.INVALID) from None
    try:
        json.loads(content)
    except ValueError as error:
        raise TPUError(f"--data is not JSON: {error}.", Reason.INVALID) from None
    return content


def _follow(session: Session, answer: Response) -> None:
    import msgspec

    from ..fleet.models import Operation
    from .waiting import finish_all

    operation = msgspec.json.decode(answer.body, type=Operation)
    about = f"{operation.tpu}: {operation.kind}" if operation.tpu else operation.kind
    print(f"{about} began", flush=True)
    ended = finish_all(session, operation, sys.stdout)
    print(f"{about} is done")
    if ended.result is not None:
        print_json(ended.result)


def _show(answer: Response) -> None:
    if answer.content_type == "application/json" and answer.body:
        print_json(json.loads(answer.body))
    elif answer.body:
        sys.stdout.write(answer.body.decode(errors="replace"))

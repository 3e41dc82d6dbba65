"""``jupyter tpu server``: the Jupyter server that commands and editors use. It can start one.

An editor needs a server that outlives its window: kernels, hunts and guards continue there. So it
is started in a session of its own, once for all windows, and found again by the next one. Its
token is in no command line and no environment: the server makes it, and Jupyter's own file tells
it to this user.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..backoff import Backoff
from ..errors import Reason, TPUError
from ..python_command import module_command
from ..terminal.grammar import command, examples

if TYPE_CHECKING:
    from ..fleet.servers import Server

_PAUSES = Backoff(0.05, 0.5)
#: Seconds for a server's start, in which it imports much, and for another process that starts one.
_START_LIMIT = 120.0


@command("server", epilog=examples("jupyter tpu server --start"))
@click.option("--start", is_flag=True, help="Start one in the background if there is none.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON with its token, for editors.")
def server(start: bool, as_json: bool) -> None:
    """Show the Jupyter server that these commands use, or start one.

    A server that is started here listens on 127.0.0.1 only, and continues until you stop it
    (`jupyter server stop PORT`). Kernels copy the project of a notebook to hosts only if the editor
    says which folder the notebook is in, as the VS Code extension does.
    """
    running = _find()
    if running is None and start:
        with _only_one():
            running = _find() or _start()
    if as_json:
        fields = running and {
            "url": running.url,
            "token": running.token,
            "pid": running.pid,
            "root": running.root_dir,
            "file": running.file,
        }
        print(json.dumps(fields))
    elif running is not None:
        print(f"{running.url} (pid {running.pid})")
    else:
        raise TPUError(
            "No Jupyter server of yours has the jupyter-tpu extension.",
            Reason.NOT_FOUND,
            "Run `jupyter tpu server --start`, or `jupyter lab`.",
        )


def _find() -> Server | None:
    """The server that other commands would use, too. Editors can't reach one at a unix socket."""
    from ..links import core_thread
    from ..terminal.session import current_target, find_server

    async def find() -> Server | None:
        running_server = await find_server(current_target(), [], lambda server: not server.socket)
        if running_server is None:
            return None
        server, client = running_server
        await client.close()
        return server

    return core_thread().wait(find())


def _start() -> Server:
    """Starts one, and waits until it answers. Raises TIMEOUT, or INTERNAL where it ends."""
    log = _log_file()
    options = ["--ServerApp.ip=127.0.0.1", "--no-browser", "--ServerApp.answer_yes=True"]
    options += ["--ServerApp.jpserver_extensions={'jupyter_tpu': True}"]
    if os.name == "posix" and os.geteuid() == 0:
        options.append("--allow-root")
    # Its folder is that of no project: only some editors tell it the folder of a notebook.
    environment = {"JUPYTER_TPU_PROJECT_SYNC": "named", **os.environ}
    with log.open("wb") as output:
        process = subprocess.Popen(
            module_command("jupyter_server", *options),
            cwd=Path.home(),
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    for _ in _until_limit():
        if process.poll() is not None:
            raise TPUError(f"The Jupyter server ended at its start. {_last_line(log)}".strip())
        server = _find()
        if server is not None:
            return server
    process.terminate()
    raise TPUError(
        f"The Jupyter server did not answer within {_START_LIMIT:g} seconds.",
        Reason.TIMEOUT,
        f"Its log is {log}.",
    )


@contextmanager
def _only_one() -> Iterator[None]:
    """Waits for another process that starts a server: then there is one to find."""
    from ..local_files import try_lock
    from ..paths import data_dir

    with open(data_dir() / "server.lock", "a") as lock:
        for _ in _until_limit():
            if try_lock(lock.fileno()):
                yield
                return
    raise TPUError("Another process has been starting a Jupyter server.", Reason.TIMEOUT)


def _until_limit() -> Iterator[None]:
    end = time.monotonic() + _START_LIMIT
    for pause in _PAUSES:
        yield
        if time.monotonic() > end:
            return
        time.sleep(pause)


def _log_file() -> Path:
    """The log of servers that are started here, empty. Only this user can read it."""
    from ..paths import data_dir

    log = data_dir() / "server.log"
    os.close(os.open(log, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600))
    return log


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"{lines[-1]} (More is in {log}.)" if lines else ""

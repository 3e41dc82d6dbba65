"""Connects with one changed copy of asyncssh after the other, each in a process of its own.

A program of tests/integration/test_ssh_asyncssh_renamed.py. Its input is JSON: the host, and the
folder of each copy. Its output is a line of JSON for each.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any

import cryptography.hazmat.primitives.serialization  # noqa: F401 – once for all processes
import msgspec
from msgspec import structs

from jupyter_tpu.fleet.setup.preflight import asyncssh_findings
from jupyter_tpu.links import bulk  # noqa: F401
from jupyter_tpu.ssh import HostAddress, Keepalive
from jupyter_tpu.ssh.proxies import resolve_route

SIZE = 1 << 20


class Logged(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


async def use(host: HostAddress, config: Path) -> dict[str, Any]:
    """What a user of a connection notices, and what is said."""
    import asyncssh

    from jupyter_tpu.ssh import connect

    logged = Logged()
    logging.getLogger("jupyter_tpu").addHandler(logged)
    route = await resolve_route(structs.replace(host, address="192.0.2.1"), config)
    connection = await connect(host, keepalive=Keepalive(1.0, 2))
    down = await connection.run(["head", "-c", str(SIZE), "/dev/zero"], max_output=2 * SIZE)
    up = await connection.run(["wc", "-c"], input=bytes(SIZE))
    answer = {
        "jumps": route.jumps,
        "down": down.stdout == "\0" * SIZE,
        "up": int(up.stdout),
        "silent": connection.silent,
        "in use": connection.in_use,
    }
    waiting = asyncio.create_task(connection.run(["sleep", "1000"]))
    while (await connection.run(["pgrep", "-x", "sleep"], check=False)).returncode:
        pass
    connection.abort()
    error = (await asyncio.gather(waiting, return_exceptions=True))[0]
    answer["aborted"] = getattr(error, "reason", repr(error))
    doctor = [finding.message for finding in await asyncssh_findings()]
    return {**answer, "doctor": doctor, "logged": logged.lines, "asyncssh": asyncssh.__file__}


def main() -> None:
    given = json.load(sys.stdin)
    host = msgspec.convert(given["host"], HostAddress, dec_hook=lambda kind, text: kind(text))
    assert "asyncssh" not in sys.modules
    for folder in given["folders"]:
        if not (pid := os.fork()):
            sys.path.insert(0, folder)

            async def limited() -> dict[str, Any]:
                async with asyncio.timeout(60):
                    return await use(host, Path(given["config"]))

            print(json.dumps(asyncio.run(limited())), flush=True)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        assert status == 0, folder


if __name__ == "__main__":
    main()

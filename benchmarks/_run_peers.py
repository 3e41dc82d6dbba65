"""A command on all hosts by a library, for run.py: in a process of its own, cold and connected.

    python _run_peers.py LIBRARY HOSTS.json

Prints, for both, the seconds of processor time and of the clock, and how many hosts answered.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def fabric(hosts: dict[str, Any], command: str) -> Callable[[], int]:
    """As podrun does it."""
    from fabric import Config, Connection, ThreadingGroup

    config = Config(lazy=True)  # no files of the user
    config.load_ssh_config = False
    group = ThreadingGroup.from_connections(
        Connection(
            address,
            user=hosts["user"],
            port=hosts["port"],
            config=config,
            connect_kwargs={"key_filename": hosts["key"], "allow_agent": False},
        )
        for address in hosts["addresses"]
    )

    def run() -> int:
        results = group.run(command, hide=True, in_stream=False)
        return sum(result.stdout == "meow\n" for result in results.values())

    return run


def parallel_ssh(hosts: dict[str, Any], command: str) -> Callable[[], int]:
    from pssh.clients import ParallelSSHClient

    addresses = hosts["addresses"]
    client = ParallelSSHClient(
        addresses,
        user=hosts["user"],
        port=hosts["port"],
        pkey=hosts["key"],
        allow_agent=False,
        pool_size=len(addresses),
    )

    def run() -> int:
        output = client.run_command(command)
        client.join(output)
        return sum(list(host.stdout) == ["meow"] and host.exit_code == 0 for host in output)

    return run


def main() -> None:
    make = {"fabric": fabric, "parallel-ssh": parallel_ssh}[sys.argv[1]]
    hosts = json.loads(Path(sys.argv[2]).read_text())
    run = make(hosts, hosts["command"])
    results = {}
    for state in ("cold", "connected"):
        begun, used = time.perf_counter(), time.process_time()
        answered = run()
        results[state] = [time.process_time() - used, time.perf_counter() - begun, answered]
    print(json.dumps(results))


if __name__ == "__main__":
    main()

"""Whether JAX on this host can work together with the other hosts of its TPU."""

import json
import socket
import time

from ..agent.protocol.process_env import process_environment
from ..calls.processes import run, text_of
from ..calls.protocol import emit
from ..in_environment import join_pod as joining


def join_pod(python, index, hosts, coordinator, reach_limit, join_limit):
    """Has *python* join *hosts* hosts in `jax.distributed`, as number *index*.

    coordinator: address and port of host 0. The limits, in seconds, are for reaching it, and for
    all others to be there. The answer's ``reached`` is False if host 0 was not reached; ``error``
    says why this host did not join.
    """
    if index and not _reaches(coordinator, reach_limit):
        return {"reached": False}
    status, lines = run(
        [python, "-I", "-c", text_of(joining), json.dumps([index, hosts, coordinator, join_limit])],
        env=process_environment(python),
        timeout=2 * join_limit,
    )
    for line in lines:
        if line.startswith("joined "):
            loads: dict = json.loads(line[len("joined ") :])
            return loads
    for line in lines:
        emit(log=line)
    last = next((line for line in lines if "Error" in line or "DEADLINE" in line), "")
    return {"error": last or "it ended with status %d" % status}


def _reaches(coordinator, limit):
    """Whether host 0 answers within *limit* seconds; its JAX may start later than this host's."""
    host, port = coordinator.rsplit(":", 1)
    deadline = time.monotonic() + limit
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
            return True
        except OSError:
            time.sleep(0.2)
    return False

"""What a host says of Ray: the version in an environment, free ports, and how its cluster is."""

import contextlib
import json
import os
import shutil
import urllib.request

from ..agent.protocol.process_env import process_environment
from ..calls.paths import HOME
from ..calls.processes import run, serve
from . import node as ray_node

_VERSION = """
import json, sys
from importlib import metadata
try:
    print(json.dumps({"ray": metadata.version("ray"), "aiohttp": metadata.version("aiohttp")}))
except metadata.PackageNotFoundError as error:
    print(json.dumps({"missing": error.name}))
"""
#: Seconds for an answer of the dashboard.
ANSWER_SECONDS = 10


def examine_ray(python):
    """The version of Ray in the environment of *python*; "" if that, or what its dashboard needs,
    is not installed. Ports for it on this host, if it becomes the head, and its token.
    """
    status, lines = run([python, "-I", "-c", _VERSION], env=process_environment(python), timeout=60)
    facts: dict = json.loads(lines[-1]) if status == 0 and lines else {}
    return {
        "version": facts.get("ray", ""),
        "free": shutil.disk_usage(HOME).free,
        "ports": [ray_node.free_port(6379), ray_node.free_port(8265)],
        "token": ray_node.read_token(),
    }


def ray_state():
    """How the cluster is of which this host is the head, as its dashboard says it."""
    state = _state()
    answer: dict = {"head": "", "port": 0, "dashboard": 0, "version": "", "token": ""}
    answer.update(state, answers=False, nodes=[])
    if state:
        answer["token"] = ray_node.read_token()
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            answer["nodes"] = _nodes(state["dashboard"], answer["token"])
            answer["answers"] = True
    return answer


def clear_ray():
    """Removes what Ray leaves of a cluster that has ended, or was killed."""
    if state := _state():
        ray_node.forget_address(state["head"], state["port"])
    with contextlib.suppress(OSError):
        os.unlink(ray_node.state_file())
    return {}


def _state():
    with contextlib.suppress(OSError, ValueError), open(ray_node.state_file()) as file:
        state: dict = json.load(file)
        return state
    return {}


def _nodes(port, token):
    """The hosts of the cluster: those that are alive, and those that were. The last one with an
    address is the current one.
    """
    request = urllib.request.Request(
        "http://127.0.0.1:%d/api/v0/nodes?limit=10000" % port,
        headers={"Authorization": "Bearer " + token},
    )
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=ANSWER_SECONDS) as response:
        listed = json.load(response)["data"]["result"]["result"]
    return [
        {
            "address": node["node_ip"],
            "alive": node["state"] == "ALIVE",
            "chips": int(node["resources_total"].get("TPU", 0)),
            "processors": int(node["resources_total"].get("CPU", 0)),
        }
        for node in listed
    ]


CALLS: dict = {
    "examine_ray": examine_ray,
    "ray_state": ray_state,
    "clear_ray": clear_ray,
}


def main():
    serve(CALLS)

"""What is started for a request: the command of a server, and how it is looked after."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import InvalidInput, Reason, TPUError
from ..models import Ray, ServingSettings, StartJob, StartModelServer
from ..models.serving import USUAL_PORT

#: Runs a Ray Serve application on a port of the loopback address, until it is ended. Its HTTP
#: options count for the first server of a cluster only. Source: docs.ray.io, "serve.start".
_RAY_PROGRAM = """
import importlib, os, sys
sys.path.insert(0, os.getcwd())
import ray
from ray import serve
ray.init(namespace="serve")
serve.start(http_options={"host": "127.0.0.1", "port": int(os.environ["PORT"])})
module, _, name = sys.argv[1].partition(":")
serve.run(getattr(importlib.import_module(module), name), blocking=True)
"""


class ServerPlan(NamedTuple):
    """A job that is a server."""

    job: StartJob
    settings: ServingSettings


def plan_server(request: StartModelServer, cluster: Ray | None) -> ServerPlan:
    """The job for a request. cluster: the Ray cluster of the TPU, for a Ray Serve application.

    Raises INVALID where the request does not say one server.
    """
    if bool(request.vllm) + bool(request.ray) + bool(request.command and not request.vllm) != 1:
        raise InvalidInput(
            "Say what to serve: a command, a model for vLLM, or a Ray Serve application.",
            "Write one of -- CMD…, --vllm MODEL, --ray APP.",
        )
    port, metrics = request.port, request.metrics
    if port is None and not (request.vllm or request.ray):
        raise InvalidInput("The port of the server is missing.", "Add --port P.", field="port")
    port = port or USUAL_PORT
    command, health, variables = request.command, request.health, dict(request.variables)
    shared = False
    name = request.name
    if request.vllm:
        command = ["vllm", "serve", request.vllm, "--host", "127.0.0.1", "--port", str(port)]
        command += request.command
        health, name = health or "/health", name or request.vllm.rpartition("/")[2]
    elif request.ray:
        command = ["python3", "-c", _RAY_PROGRAM, request.ray]
        health, name = health or "/-/healthz", name or request.ray
        if cluster is not None and cluster.state == "running":
            shared = True
            variables = {"RAY_ADDRESS": cluster.address, "RAY_AUTH_MODE": "token", **variables}
    alone = "0" if request.vllm or request.ray else "all"
    job = StartJob(
        command=command,
        name=name[-80:],
        hosts=request.hosts or alone,
        cwd=request.cwd,
        environment=request.environment,
        variables=variables,
        restart_with_tpu=request.restart_with_tpu or request.start_on_request,
        who=request.who,
    )
    settings = ServingSettings(
        port=port,
        health=health,
        metrics="/metrics" if metrics is None else metrics,
        unhealthy_limit=request.unhealthy_limit,
        shared=shared,
        start_on_request=request.start_on_request,
        hold_limit=request.hold_limit,
        max_price=request.max_price,
        confirm_price=request.confirm_price,
    )
    return ServerPlan(job, settings)


def port_in_use(tpu: str, port: int, name: str) -> TPUError:
    return TPUError(
        f"Port {port} of {tpu} is used by the server {name}.",
        Reason.CONFLICT,
        "Stop that server first, or choose another --port.",
    )

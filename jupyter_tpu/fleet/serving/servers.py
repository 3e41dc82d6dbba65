"""What is started for a request: the command of a server, and how it is looked after."""

from __future__ import annotations

from typing import NamedTuple

from ...errors import InvalidInput, Reason, TPUError
from ..models import Ray, ServingSettings, StartJob, StartModelServer
from ..models.serving import USUAL_PORT

#: Runs a Ray Serve application on a port of the loopback address, until it is ended. In a cluster,
#: Ray Serve goes on when this program has ended, with the chips of its replicas, and has one port
#: for all applications: that of its first start. So this program ends what it has started, and
#: before what one that was killed has left at another port. The cluster may be about to start, too.
_RAY_PROGRAM = """
import importlib, os, signal, socket, sys, time
NAME, LIMIT = "jupyter-tpu", 600
sys.path.insert(0, os.getcwd())
try:
    import ray
    from ray import serve
except ImportError as error:
    sys.exit(f"{error}\\nRay Serve is missing: jupyter tpu env add TPU 'ray[serve]'")
port = int(os.environ["PORT"])

def answers(address, port):
    try:
        socket.create_connection((address, port), 5).close()
    except OSError:
        return False
    return True

address = os.environ.get("RAY_ADDRESS", "").rpartition("://")[2]  # of ray://, the user's own
head, _, head_port = address.rpartition(":")
end = time.monotonic() + LIMIT
while head and head_port.isdigit() and not answers(head, int(head_port)) and time.monotonic() < end:
    time.sleep(1)
ray.init(namespace="serve")
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
try:
    ray.get_actor("SERVE_CONTROLLER_ACTOR", namespace="serve")
except ValueError:
    pass
else:
    if answers("127.0.0.1", port):
        pass  # its applications have that port together
    elif not set(serve.status().applications) - {NAME}:
        serve.shutdown()
    else:
        sys.exit(f"Ray Serve runs in this cluster already, on another port than {port}. "
                 "Choose that --port, or end it: serve.shutdown() in a notebook.")
try:
    serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": port})
    module, _, name = sys.argv[1].partition(":")
    application = getattr(importlib.import_module(module), name)
    serve.run(application, name=NAME, route_prefix="/", blocking=True)
finally:
    try:
        serve.delete(NAME)
        if not serve.status().applications:
            serve.shutdown()
    except Exception as error:  # what was raised before says why
        print("Ray Serve could not be ended:", error, flush=True)
"""
#: Seconds that it may take to end.
RAY_PATIENCE_SECONDS = 60.0


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
        metrics = metrics or ""  # each path but its own goes to the application
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
        restart_together=request.restart_together,
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


def cluster_in_use(tpu: str, name: str) -> TPUError:
    return TPUError(
        f"Ray Serve runs in the Ray cluster of {tpu} already, as the server {name}.",
        Reason.CONFLICT,
        "Stop that server first. One application can have several models, at paths of their own.",
    )

"""Runs an emulator in the foreground: model, hosts and both transports, on loopback only."""

from __future__ import annotations

import asyncio
import os
import shlex
import socket
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path

from ..errors import InvalidInput, Reason, TPUError
from .state_folder import EmulatorPorts, EmulatorState, StateFolder

MAX_HOSTS = 64
#: Seconds that a create, start, stop or delete takes at least, so that a person sees its states.
DELAY_SECONDS = 1.5
DELAY_VARIABLE = "JUPYTER_TPU_EMULATOR_DELAY"
MODE_VARIABLE = "JUPYTER_TPU_EMULATOR_MODE"
#: GiB of objects in all buckets.
STORAGE_GIB = 20.0
STORAGE_VARIABLE = "JUPYTER_TPU_EMULATOR_STORAGE_GIB"


async def serve(
    state_dir: Path,
    *,
    port: int = 0,
    on_ready: Callable[[EmulatorState], None] | None = None,
    delay: float | None = None,
    mode: str | None = None,
) -> None:
    """Serves until it is cancelled; then all hosts are ended. Their files stay.

    Parameters
    ----------
    state_dir: the folder with all files; the next emulator started there continues with them.
    port: of the REST transport; 0: that of the last run if it is free, else any.
    on_ready: called once, when both transports answer and the hosts of READY nodes run.
    delay: seconds that an operation takes at least (JUPYTER_TPU_EMULATOR_DELAY; 1.5).
    mode: how hosts are run (JUPYTER_TPU_EMULATOR_MODE); None: the best that works.

    Raises TPUError: CONFLICT if an emulator runs there already or the port is taken.
    """
    from aiohttp import web

    from .api import (
        admin,
        batch,
        billing,
        compute,
        compute_operations,
        groups,
        grpc_server,
        host_identity,
        instances,
        log_exclusions,
        machine_types,
        networks,
        os_login,
        project_checks,
        reservations,
        rest,
        services,
        storage,
    )
    from .api.calls import Api
    from .api.iap import IapTunnels
    from .engine import Engine
    from .hosts import Runtime
    from .instances import InstanceEngine
    from .model.model import Model
    from .storage import Buckets

    async with AsyncExitStack() as stack:
        folder = StateFolder(state_dir)
        stack.callback(folder.close)
        runtime = await Runtime.probe(folder.hosts, mode or os.environ.get(MODE_VARIABLE) or None)
        model = Model(
            folder.load(),
            host_capacity=MAX_HOSTS if runtime.max_hosts is None else runtime.max_hosts,
            host_limit_reason=f" (hosts run in the mode {runtime.mode!r})"
            if runtime.max_hosts is not None
            else "",
            one_address=not _has_many_addresses(),
        )
        engine = Engine(model, runtime, folder, delay=_delay(delay))
        stack.push_async_callback(engine.close)
        machines = InstanceEngine(engine, delay=_delay(delay))
        cloud_tpu = Api(engine)
        buckets = Buckets(folder.storage, _storage_limit())
        stack.callback(buckets.close)

        identities = host_identity.HostIdentities(folder.token)

        def from_host(request: web.Request) -> bool:
            in_metadata = request.path.startswith(host_identity.METADATA)
            return in_metadata or identities.allows(request, engine)

        checks = rest.guard(folder.token, from_host)
        app = web.Application(middlewares=[checks], client_max_size=2**20)
        rest.add_routes(app, cloud_tpu)
        compute_operations.add_routes(app, engine)
        machine_types.add_routes(app, engine)
        instances.add_routes(app, engine, machines)
        groups.add_routes(app, engine, machines)
        reservations.add_routes(app, engine, machines)
        compute.add_routes(app, engine)
        batch.add_routes(app)
        billing.add_routes(app)
        project_checks.add_routes(app, engine)
        networks.add_routes(app, engine)
        os_login.add_routes(app, engine)
        log_exclusions.add_routes(app, engine)
        services.add_routes(app, engine)
        host_identity.add_routes(app, engine, identities)
        storage.add_routes(app, engine, identities, buckets)
        tunnels = IapTunnels(engine, folder.token)
        stack.push_async_callback(tunnels.close)
        admin.add_routes(app, engine, machines, cloud_tpu, tunnels)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        stack.callback(engine.notices.close)
        last = folder.load_ports()
        rest_port = await _start_rest(runner, port, last.rest)

        server = grpc_server.make_server(cloud_tpu, folder.token)
        try:
            grpc_port = grpc_server.bind(server, last.grpc)
        except OSError:
            grpc_port = grpc_server.bind(server, 0)
        await server.start()
        stack.push_async_callback(server.stop, 0.5)
        folder.save_ports(EmulatorPorts(rest=rest_port, grpc=grpc_port))

        address = f"http://127.0.0.1:{rest_port}"
        engine.identity = lambda node, host: identities.variables(node.id, address, host.worker)
        await engine.open()
        await machines.open()
        state = EmulatorState(
            id=model.id,
            pid=os.getpid(),
            rest=address,
            grpc=f"127.0.0.1:{grpc_port}",
            token_file=str(folder.token.path),
            state_dir=str(folder.path),
            mode=runtime.mode,
            skipped=list(runtime.skipped),
        )
        folder.publish(state)
        if on_ready is not None:
            on_ready(state)
        await asyncio.Event().wait()


def environment_lines(state: EmulatorState) -> list[str]:
    """The ``export`` lines that point gcloud and jupyter-tpu at a running emulator."""
    variables = {
        "JUPYTER_TPU_EMULATOR": str(state.path),
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_TPU": f"{state.rest}/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_COMPUTE": f"{state.rest}/compute/v1/",
        "CLOUDSDK_API_ENDPOINT_OVERRIDES_STORAGE": f"{state.rest}/storage/v1/",
        **{
            f"CLOUDSDK_API_ENDPOINT_OVERRIDES_{name.upper()}": f"{state.rest}/{name}/"
            for name in ("cloudresourcemanager", "oslogin", "serviceusage")
        },
        "CLOUDSDK_AUTH_ACCESS_TOKEN_FILE": state.token_file,
        "CLOUDSDK_CORE_PROJECT": state.project,
        "CLOUDSDK_COMPUTE_ZONE": state.zone,
    }
    return [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]


async def _start_rest(runner: object, port: int, last: int) -> int:
    from aiohttp import web

    assert isinstance(runner, web.AppRunner)
    for candidate in [port] if port else [last, 0] if last else [0]:
        site = web.TCPSite(runner, "127.0.0.1", candidate)
        try:
            await site.start()
        except OSError as error:
            if candidate == port != 0:
                raise TPUError(
                    f"The emulator can't listen on port {port}: {error.strerror}.",
                    Reason.CONFLICT,
                    "Choose another port with --port, or leave the option out.",
                ) from None
            continue
        return int(runner.addresses[0][1])
    raise TPUError("The emulator found no free port on 127.0.0.1.", Reason.INTERNAL)


def _has_many_addresses() -> bool:
    """Whether all of 127/8 is this machine, as on Linux; macOS has 127.0.0.1 alone."""
    with socket.socket() as trial:
        try:
            trial.bind(("127.250.250.250", 0))
        except OSError:
            return False
    return True


def _delay(given: float | None) -> float:
    return _number(DELAY_VARIABLE, "seconds", DELAY_SECONDS) if given is None else given


def _storage_limit() -> int:
    """The most bytes of objects."""
    return int(_number(STORAGE_VARIABLE, "GiB", STORAGE_GIB) * 2**30)


def _number(variable: str, unit: str, default: float) -> float:
    text = os.environ.get(variable, "")
    try:
        return float(text) if text else default
    except ValueError:
        raise InvalidInput(f"{variable} is not a number of {unit}: {text!r}.") from None

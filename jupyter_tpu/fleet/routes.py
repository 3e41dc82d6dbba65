"""The fleet's REST interface on one screen: the server's handlers, the OpenAPI document and the
client are made from it.
"""

from __future__ import annotations

from typing import Any, Literal, cast

from msgspec import Struct

from .models import (
    TPU,
    App,
    AppVisit,
    Catalog,
    ChipHolder,
    ConnectTPU,
    CreateTPU,
    DeleteTPU,
    DisconnectTPU,
    Environment,
    FleetStatus,
    KeepWarm,
    Kernel,
    OpenApp,
    OpenTensorBoard,
    OpenTunnel,
    Operation,
    ProfileKernel,
    Quote,
    StopTPU,
    TPUList,
    Tunnel,
    VisitApp,
)

#: Where the interface is, under the server's base URL.
ROOT = "jupyter-tpu/v1"


class Route(Struct, frozen=True, kw_only=True):
    """One method on one path.

    call: the fleet's method. Its arguments are the path's parts, then the body (or *query*) if
    there is one. Of other rooms' routes: their name for it.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    call: str
    about: str
    answer: Any = None  # None: 204, no content
    body: type[Struct] | None = None
    query: dict[str, str] = {}  # names and what they mean
    status: int = 200
    media: dict[str, str] = {}  # other types of content the answer may have, and when
    result: Any = None  # of the operation that is the answer, when that is done
    more: str = ""  # a longer description for the document


def route(line: str, call: str, about: str, answer: Any = None, **more: Any) -> Route:
    method, path = line.split()
    if answer is Operation and method != "GET" and "status" not in more:
        more["status"] = 202
    return Route(method=cast(Any, method), path=path, call=call, about=about, answer=answer, **more)


_ENDS = {"end_kernels": "true: running kernels may be shut down"}

ROUTES = (
    route("GET status", "status", "The health of this interface", FleetStatus),
    route("GET catalog", "catalog", "Types, zones and versions", Catalog,
          query={"zone": "only what this zone offers"}),
    route("GET tpus", "tpus", "All TPUs", TPUList),
    route("POST tpus", "create", "Create a TPU", Operation, body=CreateTPU),
    route("POST quotes", "quote", "What creating a TPU would make and cost; creates nothing", Quote,
          body=CreateTPU),
    route("GET tpus/{tpu}", "tpu", "One TPU", TPU),
    route("DELETE tpus/{tpu}", "delete", "Delete a TPU", Operation, body=DeleteTPU, query=_ENDS),
    route("POST tpus/{tpu}/start", "start", "Start a stopped TPU", Operation),
    route("POST tpus/{tpu}/stop", "stop", "Stop a TPU", Operation, body=StopTPU),
    route("POST tpus/{tpu}/connect", "connect", "Create an environment and its kernel", Operation,
          body=ConnectTPU),
    route("POST tpus/{tpu}/disconnect", "disconnect", "Remove its kernels from Jupyter",
          Operation, body=DisconnectTPU),
    route("GET tpus/{tpu}/environments", "environments", "Its environments", list[Environment]),
    route("POST tpus/{tpu}/environments/{environment}/warm", "keep_warm",
          "Decide whether it has a warm kernel", Environment, body=KeepWarm),
    route("GET tpus/{tpu}/kernels", "kernels", "The kernels that run there", list[Kernel]),
    route("GET tpus/{tpu}/chips", "chips", "The processes that use its chips",
          list[ChipHolder]),
    route("DELETE tpus/{tpu}/kernels/{kernel}", "end_kernel", "Shut down a kernel"),
    route("POST tpus/{tpu}/kernels/{kernel}/take", "take_over_kernel",
          "Take over a kernel from its client"),
    route("GET tpus/{tpu}/tunnels", "tunnels", "The tunnels to it", list[Tunnel]),
    route("POST tpus/{tpu}/tunnels", "open_tunnel", "Open a tunnel", Tunnel, body=OpenTunnel,
          status=201),
    route("DELETE tpus/{tpu}/tunnels/{tunnel}", "close_tunnel", "Close a tunnel"),
    route("GET tunnels", "all_tunnels", "All tunnels", list[Tunnel]),
    route("POST tpus/{tpu}/apps", "open_app", "Open a web app of a host", App,
          body=OpenApp, status=201),
    route("GET apps", "apps", "The open web apps", list[App]),
    route("POST apps/{app}/visits", "visit_app", "A URL that opens an app once", AppVisit,
          body=VisitApp, status=201),
    route("DELETE apps/{app}", "close_app", "Close an app"),
    route("POST tpus/{tpu}/tensorboard", "open_tensorboard", "Open TensorBoard for a folder",
          Operation, body=OpenTensorBoard),
    route("POST tpus/{tpu}/kernels/{kernel}/profile", "profile",
          "Trace a kernel and show it in TensorBoard", Operation, body=ProfileKernel),
    route("GET operations", "operations", "Running and recent operations", list[Operation]),
    route("GET operations/{operation}", "operation", "One operation, with its log", Operation),
    route("DELETE operations/{operation}", "cancel", "Cancel an operation", Operation),
)  # fmt: skip


#: The routes by the method that they call.
BY_CALL = {each.call: each for each in ROUTES}

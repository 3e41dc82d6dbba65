"""All routes, on one screen: handlers, the OpenAPI document and the tests are made from it."""

from __future__ import annotations

from typing import Any, Literal, cast

from msgspec import Struct

from ..fleet.models import (
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
    KeepWarm,
    Kernel,
    OpenApp,
    OpenTensorBoard,
    OpenTunnel,
    Operation,
    ProfileKernel,
    StopTPU,
    TPUList,
    Tunnel,
    VisitApp,
)
from ..jaxkit.compile.models import CompileOutcome, CompileRequest
from ..jaxkit.rest.models import (
    FoldRequest,
    KeyDescription,
    SampleAnswer,
    SampleRequest,
    SplitAnswer,
    SplitRequest,
    TilingRequest,
)
from ..jaxkit.sharding.models import Placement, PlacementRequest
from ..jaxkit.tiles import TilingTable

ROOT = "jupyter-tpu/v1"


class Route(Struct, frozen=True, kw_only=True):
    """One method on one path.

    call: the fleet's method. It gets the path's parts, then the body (or *query*) if there is one.
    Of the JAX routes: the name of jaxkit's request, which reads the body itself.
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
    more: str = ""  # what the document says besides


def _route(line: str, call: str, about: str, answer: Any = None, **more: Any) -> Route:
    method, path = line.split()
    if answer is Operation and method != "GET" and "status" not in more:
        more["status"] = 202
    return Route(method=cast(Any, method), path=path, call=call, about=about, answer=answer, **more)


_ENDS = {"end_kernels": "true: kernels that run there may be ended"}

ROUTES = (
    _route("GET catalog", "catalog", "Types, zones and versions", Catalog,
           query={"zone": "only what this zone offers"}),
    _route("GET tpus", "tpus", "All TPUs", TPUList),
    _route("POST tpus", "create", "Create a TPU", Operation, body=CreateTPU),
    _route("GET tpus/{tpu}", "tpu", "One TPU", TPU),
    _route("DELETE tpus/{tpu}", "delete", "Delete a TPU", Operation, body=DeleteTPU, query=_ENDS),
    _route("POST tpus/{tpu}/start", "start", "Start a stopped TPU", Operation),
    _route("POST tpus/{tpu}/stop", "stop", "Stop a TPU", Operation, body=StopTPU),
    _route("POST tpus/{tpu}/connect", "connect", "Make an environment and its kernel", Operation,
           body=ConnectTPU),
    _route("POST tpus/{tpu}/disconnect", "disconnect", "Remove its kernels from Jupyter",
           Operation, body=DisconnectTPU),
    _route("GET tpus/{tpu}/environments", "environments", "Its environments", list[Environment]),
    _route("POST tpus/{tpu}/environments/{environment}/warm", "keep_warm",
           "Whether it has a warm kernel", Environment, body=KeepWarm),
    _route("GET tpus/{tpu}/kernels", "kernels", "The kernels that run there", list[Kernel]),
    _route("GET tpus/{tpu}/chips", "chips", "The processes that hold its chips",
           list[ChipHolder]),
    _route("DELETE tpus/{tpu}/kernels/{kernel}", "end_kernel", "End a kernel"),
    _route("POST tpus/{tpu}/kernels/{kernel}/take", "take_over_kernel",
           "Take a kernel over, whoever has it"),
    _route("GET tpus/{tpu}/tunnels", "tunnels", "The tunnels to it", list[Tunnel]),
    _route("POST tpus/{tpu}/tunnels", "open_tunnel", "Open a tunnel", Tunnel, body=OpenTunnel,
           status=201),
    _route("DELETE tpus/{tpu}/tunnels/{tunnel}", "close_tunnel", "Close a tunnel"),
    _route("GET tunnels", "all_tunnels", "All tunnels", list[Tunnel]),
    _route("POST tpus/{tpu}/apps", "open_app", "Open a web application of a host", App,
           body=OpenApp, status=201),
    _route("GET apps", "apps", "The web applications that are open", list[App]),
    _route("POST apps/{app}/visits", "visit_app", "A URL that opens one, once", AppVisit,
           body=VisitApp, status=201),
    _route("DELETE apps/{app}", "close_app", "Close one"),
    _route("POST tpus/{tpu}/tensorboard", "open_tensorboard", "Open TensorBoard for a folder",
           Operation, body=OpenTensorBoard),
    _route("POST tpus/{tpu}/kernels/{kernel}/profile", "profile",
           "Trace a kernel and show it in TensorBoard", Operation, body=ProfileKernel),
    _route("GET operations", "operations", "Running and lately ended ones", list[Operation]),
    _route("GET operations/{operation}", "operation", "One operation, with its log", Operation),
    _route("DELETE operations/{operation}", "cancel", "Cancel an operation", Operation),
)  # fmt: skip


def _jax(call: str, about: str, answer: Any, body: type[Struct], **more: Any) -> Route:
    return _route(f"POST jax/{call}", call, about, answer, body=body, **more)


_NPY = {"application/x-npy": "many numbers, or where asked for; Jax-Dtype and Jax-Key say the rest"}

JAX_ROUTES = (
    _jax("prng/split", "Split a key", SplitAnswer, SplitRequest),
    _jax("prng/fold", "Fold numbers into a key", KeyDescription, FoldRequest),
    _jax("prng/sample", "Sample a distribution", SampleAnswer, SampleRequest, media=_NPY),
    _jax("placement", "What each device holds of arrays", Placement, PlacementRequest),
    _jax("tiling", "What the tiles of a TPU waste", TilingTable, TilingRequest),
)

COMPILE = _jax(
    "compile", "Compile a program for TPUs that are not there", Operation, CompileRequest,
    result=CompileOutcome,
    more="The code is run, as the user whose server this is and who may run any code in its "
    "kernels anyway (leave to execute on kernels is asked for, too). It runs in a process of its "
    "own, one program at a time, that is ended at its limits of time and memory, by DELETE "
    "operations/{operation}, and with the server; nothing is executed on a TPU, and none is "
    "needed, nor a project. Programs wait for their turn. The operation is gone when the server "
    "is.",
)  # fmt: skip


def paths() -> dict[str, dict[str, Route]]:
    """The routes by path and method."""
    found: dict[str, dict[str, Route]] = {}
    for route in ROUTES:
        found.setdefault(route.path, {})[route.method] = route
    return found

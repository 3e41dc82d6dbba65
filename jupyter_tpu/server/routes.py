"""All routes: the fleet's, those of JAX, which need no TPU, and those that only a server has."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ..fleet.models import Operation
from ..fleet.routes import ROOT, ROUTES, Route, route
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

__all__ = [
    "ALL_ROUTES",
    "COMPILE",
    "JAX_ROUTES",
    "ROOT",
    "ROUTES",
    "TERMINAL",
    "Route",
    "Terminal",
    "paths",
]


class Terminal(Struct, kw_only=True):
    """A terminal of the Jupyter server."""

    name: str  # in Jupyter's /api/terminals


def _jax(call: str, about: str, answer: Any, body: type[Struct], **more: Any) -> Route:
    return route(f"POST jax/{call}", call, about, answer, body=body, **more)


_NPY = {
    "application/x-npy": "for many numbers, or on request; see the headers Jax-Dtype and Jax-Key"
}

JAX_ROUTES = (
    _jax("prng/split", "Split a key", SplitAnswer, SplitRequest),
    _jax("prng/fold", "Fold numbers into a key", KeyDescription, FoldRequest),
    _jax("prng/sample", "Sample a distribution", SampleAnswer, SampleRequest, media=_NPY),
    _jax("placement", "What each device holds of arrays", Placement, PlacementRequest),
    _jax("tiling", "What the tiles of a TPU waste", TilingTable, TilingRequest),
)

COMPILE = _jax(
    "compile", "Compile a program for TPUs without using one", Operation, CompileRequest,
    result=CompileOutcome,
    more="The code is run as the server's user, as in a kernel, so permission to execute kernels "
    "is needed, too. It runs in its own process, one program at a time. The process is ended at "
    "its limits of time and memory, by DELETE operations/{operation}, and with the server. Nothing "
    "is executed on a TPU, and neither a TPU nor a project is needed. Other programs wait. The "
    "operation is lost when the server ends.",
)  # fmt: skip

TERMINAL = route(
    "POST tpus/{tpu}/hosts/{host}/terminals", "terminal", "Open a terminal on a host", Terminal,
    status=201,
    more="A terminal of the Jupyter server that runs `jupyter tpu ssh`. Permission to write "
    "terminals is needed, too. It is used and ended through Jupyter's own /api/terminals.",
)  # fmt: skip

#: All that the OpenAPI document describes.
ALL_ROUTES = (*ROUTES, *JAX_ROUTES, COMPILE, TERMINAL)


def paths() -> dict[str, dict[str, Route]]:
    """The routes by path and method."""
    found: dict[str, dict[str, Route]] = {}
    for each in ROUTES:
        found.setdefault(each.path, {})[each.method] = each
    return found

"""All routes: the fleet's, those of JAX, which need no TPU, and those that only a server has."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from ..fleet.models import (
    Contents,
    CreateContents,
    HostFile,
    Operation,
    RenameContents,
    SaveContents,
)
from ..fleet.routes import ROOT, ROUTES, Route, route
from ..jaxkit.compile.models import CompileOutcome, CompileRequest, PlanRequest
from ..jaxkit.compile.plan_table import TypePlan
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
    "CONTENTS_PATH",
    "FILE",
    "JAX_ROUTES",
    "PLAN",
    "PROMETHEUS",
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

PLAN = _jax(
    "plan", "Compare the time and price of a step on types, without a TPU", Operation, PlanRequest,
    result=TypePlan,
    more="As jax/compile, for each type and mesh: the result has a row for each, the cheapest a "
    "step first. What did not fit, could not be compiled, or was not reached in time is a row with "
    "the reason.",
)  # fmt: skip

TERMINAL = route(
    "POST tpus/{tpu}/hosts/{host}/terminals", "terminal", "Open a terminal on a host", Terminal,
    status=201,
    more="A terminal of the Jupyter server that runs `jupyter tpu ssh`. Permission to write "
    "terminals is needed, too. It is used and ended through Jupyter's own /api/terminals.",
)  # fmt: skip

PROMETHEUS = route(
    "GET metrics/prometheus", "prometheus", "Memory and load of chips, as Prometheus reads them",
    text="text/plain; version=0.0.4",
)  # fmt: skip

_FILE = {"path": "relative to the home folder, or absolute; it has no . or .. in it"}
_CONTENTS = "Permission to {} Jupyter's contents is needed, too."

FILE = route(
    "GET tpus/{tpu}/hosts/{host}/files", "file", "Whether a file exists, and its size", HostFile,
    query=_FILE, more=_CONTENTS.format("read"),
)  # fmt: skip

FILE_CONTENT = (
    route(
        "GET tpus/{tpu}/hosts/{host}/files/content", "download", "Download a file of a host",
        query=_FILE, file="answer",
        more="If the file becomes shorter meanwhile, or the host can't be reached any more, the "
        "connection is closed before Content-Length bytes were sent. " + _CONTENTS.format("read"),
    ),
    route(
        "PUT tpus/{tpu}/hosts/{host}/files/content", "upload", "Upload a file to a host", HostFile,
        query=_FILE | {"overwrite": "true: a file of this name is replaced; else: EXISTS"},
        file="body", status=201,
        more="The folder must exist. The file has its name when it is whole, and a broken upload "
        "leaves nothing. " + _CONTENTS.format("write"),
    ),
)  # fmt: skip

CONTENTS_PATH = "tpus/{tpu}/hosts/{host}/contents/{path}"


def _contents(method: str, call: str, about: str, answer: Any = Contents, **more: Any) -> Route:
    needed = _CONTENTS.format("read" if method == "GET" else "write")
    return route(f"{method} {CONTENTS_PATH}", call, about, answer, more=needed, **more)


#: Jupyter's contents protocol, with a host's files.
CONTENTS = (
    _contents("GET", "contents", "A file or folder of a host", query={
        "type": "directory, file or notebook: refused if it is something else",
        "format": "text or base64; else text where it is UTF-8",
        "content": "0: without the content",
        "hash": "1: with the SHA-256 hash of a file",
    }),
    _contents("POST", "create_contents", "Create a file in a folder, or copy one there",
              body=CreateContents, status=201),
    _contents("PUT", "save_contents", "Save a file", body=SaveContents),
    _contents("PATCH", "rename_contents", "Rename a file or folder", body=RenameContents),
    _contents("DELETE", "delete_contents", "Delete a file or an empty folder, or move it to the "
              "trash if the server's delete_to_trash is on", None),
)  # fmt: skip

#: All that the OpenAPI document describes.
ALL_ROUTES = (
    *(*ROUTES, *JAX_ROUTES, COMPILE, PLAN, TERMINAL, PROMETHEUS),
    *(FILE, *FILE_CONTENT, *CONTENTS),
)


def paths() -> dict[str, dict[str, Route]]:
    """The routes by path and method."""
    by_path: dict[str, dict[str, Route]] = {}
    for entry in ROUTES:
        by_path.setdefault(entry.path, {})[entry.method] = entry
    return by_path

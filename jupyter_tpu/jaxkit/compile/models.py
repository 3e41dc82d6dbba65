"""What is asked of the compiler, and the answer of a search over several types."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ..arrays import ArrayRequest, MeshAxes
from .plan_row import Tier
from .report import CompileReport


class CompileLimits(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """Limits of one compiling process, which is stopped beyond them."""

    seconds: Annotated[float, Meta(gt=0, le=3600)] = 300.0
    #: Resident memory of the compiling process.
    memory_bytes: Annotated[int, Meta(ge=1 << 29)] = 6 << 30


class CompileRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST jax/compile: Python code that defines a function, and the shapes it is called with.

    The code is run as the server's user, like a cell of a notebook, in a separate process that is
    stopped at its limits of time and memory.
    """

    code: Annotated[str, Meta(max_length=1 << 20)]
    #: The name of the function that the code defines.
    function: str
    arguments: list[ArrayRequest]
    #: The type to compile for ("v5litepod-8").
    type: str | None = None
    #: Instead of one type: types to try in this order until the program fits, such as those of a
    #: grant. Without both: the catalog's, from the cheapest on.
    types: Annotated[list[str], Meta(max_length=64)] | None = None
    #: The most devices of a type from the catalog that is tried.
    max_devices: Annotated[int, Meta(ge=1)] = 64
    mesh: MeshAxes | None = None
    #: Arguments whose memory the outputs may use, by position.
    donate: list[int] = []
    limits: CompileLimits = CompileLimits()


class PlanRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST jax/plan: Python code that defines a step, to compare its time and price on types.

    The code is run as for jax/compile, once for each row of the answer. The arguments are those of
    the whole TPU, so that every type does the same step.
    """

    code: Annotated[str, Meta(max_length=1 << 20)]
    #: The name of the function that the code defines.
    function: str
    arguments: list[ArrayRequest]
    #: Types ("v5litepod-8") and generations ("v5e": its types with up to `max_devices` devices).
    #: Default: all of the catalog's up to that.
    types: Annotated[list[str], Meta(max_length=64)] | None = None
    max_devices: Annotated[int, Meta(ge=1)] = 8
    mesh: MeshAxes | None = None
    #: Instead of a mesh and specs: of data, fsdp and tensor, those whose meshes are compared, too.
    #: The last argument is the batch, which data and fsdp divide; fsdp and tensor divide others.
    axes: list[str] | None = None
    #: The price to rank by.
    tier: Tier = "on-demand"
    #: Prices of its region; "": those of the cheapest region of each type.
    zone: str = ""
    #: Arguments whose memory the outputs may use, by position.
    donate: list[int] = []
    #: For all types together. Then the plan is partial.
    seconds: Annotated[float, Meta(gt=0, le=7200)] = 600.0
    #: The limits of each compilation.
    limits: CompileLimits = CompileLimits()


class CompileTrial(Struct, kw_only=True):
    """The result for one type."""

    type: str
    #: None: skipped, since the mesh or the arguments do not divide over its devices.
    fits: bool | None
    #: Per device; None where the compiler stopped before it knew.
    needed_bytes: int | None = None
    hbm_bytes: int = 0
    #: USD for all chips at list price, in the cheapest known zone; None if not known.
    usd_per_hour: float | None = None
    #: Why it does not fit or was skipped.
    why: str = ""


class CompileOutcome(Struct, kw_only=True):
    """The result of an operation of jax/compile."""

    #: The first type that the program fits; None if none of those tried.
    type: str | None
    #: For that type; if none fits, for the type where the least memory is missing.
    report: CompileReport
    tried: list[CompileTrial]
    #: Source and date of `usd_per_hour`.
    prices: str = ""

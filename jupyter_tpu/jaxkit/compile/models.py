"""What is asked of the compiler, and the answer of a search over several types."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from ..arrays import ArrayRequest, MeshAxes
from .report import CompileReport


class CompileLimits(Struct, kw_only=True, forbid_unknown_fields=True, frozen=True):
    """Of one compiling process; it is ended beyond them."""

    seconds: Annotated[float, Meta(gt=0, le=3600)] = 300.0
    #: Resident memory of the compiling process.
    memory_bytes: Annotated[int, Meta(ge=1 << 29)] = 6 << 30


class CompileRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST jax/compile: Python code that defines a function, and the shapes it is called with.

    The code is run as the user whose server this is, as a cell of a notebook would be, in a
    process of its own that is ended at its limits of time and memory.
    """

    code: Annotated[str, Meta(max_length=1 << 20)]
    #: The name of the function that the code defines.
    function: str
    arguments: list[ArrayRequest]
    #: The type to compile for ("v5litepod-8").
    type: str | None = None
    #: Instead of one: those of a grant, say, tried in this order until the program fits. With
    #: neither: the catalog's, from the cheapest on.
    types: Annotated[list[str], Meta(max_length=64)] | None = None
    #: Of the types that are tried.
    max_devices: Annotated[int, Meta(ge=1)] = 64
    mesh: MeshAxes | None = None
    #: Arguments whose memory the outputs may take, by position.
    donate: list[int] = []
    limits: CompileLimits = CompileLimits()


class CompileTrial(Struct, kw_only=True):
    """How a program fared on one type."""

    type: str
    #: None: its devices do not divide the mesh or the arguments, so it was passed over.
    fits: bool | None
    #: Per device; None where the compiler gave up before it knew.
    needed_bytes: int | None = None
    hbm_bytes: int = 0
    #: USD for all chips at list price, in the cheapest zone noted; None if not known.
    usd_per_hour: float | None = None
    #: Why it does not fit or was passed over.
    why: str = ""


class CompileOutcome(Struct, kw_only=True):
    """What an operation of jax/compile found."""

    #: The first type that the program fits; None if none of those tried.
    type: str | None
    #: On that type; else on the one where the least is lacking.
    report: CompileReport
    tried: list[CompileTrial]
    #: Where `usd_per_hour` is from, and of which day.
    prices: str = ""

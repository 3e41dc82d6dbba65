"""What crosses the border of jaxkit: the bodies and answers of REST, defined once.

Sizes are in bytes, times in seconds. Unknown fields of a request are refused, so that a typing
error does not pass for a default.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

#: One entry per dimension: null (not split), an axis of the mesh, or several axes.
Spec = list[str | list[str] | None]
Generation = Literal["v2", "v3", "v4", "v5e", "v5p", "v6e", "tpu7x"]
Implementation = Literal["threefry2x32", "rbg", "unsafe_rbg"]
Shape = list[int]

#: Axis -> size; one size may be -1, "what is left".
MeshAxes = dict[str, int]


# ---- random numbers ---------------------------------------------------------------------------


class KeyRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A key: from a seed, or the data of one that exists."""

    seed: int | None = None
    #: The uint32 numbers of a key, as an earlier answer gave them.
    data: list[Annotated[int, Meta(ge=0, lt=1 << 32)]] | None = None
    implementation: Implementation = "threefry2x32"


class SplitRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST jax/prng/split: a key to go on with, and *num* keys to use."""

    key: KeyRequest
    num: int = 1


class FoldRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST jax/prng/fold: the key of a domain and numbers; without a domain, plain ``fold_in``."""

    key: KeyRequest
    data: list[int] = []
    domain: str | None = None


class SampleRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST jax/prng/sample: any distribution of ``jax.random``, sampled on the CPU."""

    key: KeyRequest
    distribution: str
    #: Unset: what the distribution's parameters give.
    shape: Shape | UnsetType = UNSET
    dtype: str | None = None
    parameters: dict[str, Any] = {}
    #: "auto": JSON up to 10,000 numbers, .npy beyond.
    format: Literal["auto", "json", "npy"] = "auto"


class KeyDescription(Struct, kw_only=True):
    """A key's data and what decides the numbers that come of it."""

    implementation: str
    threefry_partitionable: bool
    x64: bool
    jax_version: str
    #: The uint32 numbers; nested where it is an array of keys.
    data: list[Any]
    #: Made by ``jax.random.key`` rather than by ``PRNGKey``.
    typed: bool = True
    note: str = ""


class SplitAnswer(Struct, kw_only=True):
    key: KeyDescription
    subkeys: list[list[int]]


class SampleAnswer(Struct, kw_only=True):
    """Numbers as jax gives them, bit for bit; NaN and infinities as the strings of that name."""

    distribution: str
    shape: Shape
    dtype: str
    values: Any
    key: KeyDescription


# ---- placement and tiling ---------------------------------------------------------------------


class ArrayRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """An array by its shape, and how it is split over the mesh (not at all by default).

    Or a tree of arrays: then it has nothing but `tree`.
    """

    shape: Shape | None = None
    dtype: str = "float32"
    spec: Spec = []
    #: Instead of a shape: name -> array or tree.
    tree: dict[str, ArrayRequest] | None = None


class PlacementRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST jax/placement."""

    mesh: MeshAxes
    #: Name -> array or tree; what is in a tree has a path for a name, "layers/0/kernel".
    arrays: dict[str, ArrayRequest]
    #: The types to say "fits" or not of; all of the catalog by default.
    types: list[str] | None = None
    #: Whose tiles `padded_bytes` are of.
    generation: Generation = "v5e"
    #: Draw the array of this name.
    picture: str | None = None
    theme: Literal["auto", "light", "dark", "inherit"] = "auto"


class ArrayPlacement(Struct, kw_only=True):
    """What one device holds of an array."""

    name: str
    shape: Shape
    dtype: str
    spec: Spec
    shard_shape: Shape
    #: Into how many different shards it is cut, and how often each exists.
    shards: int
    copies: int
    bytes: int  # of the whole array, once
    bytes_per_device: int
    padded_bytes_per_device: int

    @property
    def replicated(self) -> bool:
        """Whether every device holds all of it."""
        return self.shards == 1


class TypeFit(Struct, kw_only=True):
    """Whether the arrays fit a TPU type; a program needs room for its own temporaries besides."""

    type: str
    fits: bool
    devices: int
    #: What a program may use on one device.
    hbm_bytes_per_device: int
    padded_bytes_per_device: int
    #: Why not, in a few words; "" if it fits.
    why: str = ""


class Placement(Struct, kw_only=True):
    """The answer of jax/placement."""

    mesh: MeshAxes
    devices: int
    generation: str
    arrays: list[ArrayPlacement]
    bytes: int
    bytes_per_device: int
    padded_bytes_per_device: int
    #: The names of the arrays of which every device holds all, and what that costs each device.
    replicated: list[str]
    replicated_bytes_per_device: int
    types: list[TypeFit]
    picture: str | None = None

    def __str__(self) -> str:
        from .tables import placement_text

        return placement_text(self)

    def _repr_html_(self) -> str:
        from .tables import placement_html

        return placement_html(self)


class TilingRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """POST jax/tiling."""

    arrays: dict[str, ArrayRequest]
    generation: Generation = "v5e"


class Tiling(Struct, kw_only=True):
    """How an array lies in the HBM of a TPU, and what that wastes."""

    name: str
    shape: Shape
    dtype: str
    generation: str
    #: As the compiler writes it: "{1,0:T(8,128)(2,1)}"; dimensions from the fastest on.
    layout: str
    bytes: int
    padded_bytes: int
    #: padded_bytes - bytes.
    waste: int
    #: The shape that fills the same tiles and wastes nothing.
    full_shape: Shape


class TilingTable(Struct, kw_only=True):
    """The answer of jax/tiling: the most wasteful array first."""

    generation: str
    arrays: list[Tiling]
    bytes: int
    padded_bytes: int

    def __str__(self) -> str:
        from .tables import tiling_text

        return tiling_text(self)

    def _repr_html_(self) -> str:
        from .tables import tiling_html

        return tiling_html(self)


# ---- compiling --------------------------------------------------------------------------------


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


class Buffer(Struct, kw_only=True):
    """One allocation in the memory of a device."""

    bytes: int
    kind: Literal["argument", "output", "temporary"]
    dtype: str
    shape: Shape
    layout: str
    #: What it would take without padding.
    unpadded_bytes: int
    #: Operation, as JAX names it ("jit(step)/dot_general"), or the argument's path.
    name: str
    #: "train.py:12", where known.
    source: str = ""


class Collective(Struct, kw_only=True):
    """What the devices say to each other, by kind."""

    kind: str  # "all-reduce"
    #: How many in one run of the program, loops counted as often as they are known to run.
    count: int
    #: Result bytes on one device over all of them.
    bytes: int


class CompileReport(Struct, kw_only=True):
    """What the TPU's own compiler says of a program, without the TPU."""

    type: str
    topology: str
    devices: int
    devices_used: int
    hosts: int
    fits: bool
    #: Per device: what a program may use, what this one needs, and what that is made of. None:
    #: the compiler gave up before it knew.
    hbm_bytes: int
    needed_bytes: int | None = None
    argument_bytes: int | None = None
    output_bytes: int | None = None
    #: Outputs that live where donated arguments were (in `argument_bytes` already).
    aliased_bytes: int | None = None
    temporary_bytes: int | None = None
    code_bytes: int | None = None
    padding_bytes: int | None = None
    buffers: list[Buffer] = []
    collectives: list[Collective] = []
    flops: float | None = None
    bytes_accessed: float | None = None
    flops_caveat: str = ""
    #: The compiler's sentence, if the program does not fit.
    message: str = ""
    jax_version: str = ""
    libtpu_version: str = ""
    seconds: float = 0.0
    notes: list[str] = []

    def __str__(self) -> str:
        from .tables import compile_text

        return compile_text(self)

    def _repr_html_(self) -> str:
        from .tables import compile_html

        return compile_html(self)


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


class Answer(Struct, kw_only=True):
    """What the worker hands to the server: a body, its type and headers that go with it."""

    content_type: str
    body: bytes
    headers: dict[str, str] = {}

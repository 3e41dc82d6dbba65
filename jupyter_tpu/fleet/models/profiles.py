"""Profiles: what the devices of a TPU do for some seconds, and what fills their memory."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...options import option
from .jobs import Hosts
from .problems import Problem


class ProfileTPU(Struct, kw_only=True, forbid_unknown_fields=True):
    """A trace of all hosts of a TPU at once, to be shown in TensorBoard (xprof)."""

    seconds: Annotated[
        float, option("Duration of the trace, at most two minutes.", unit="seconds")
    ] = 3.0
    hosts: Hosts = "all"
    #: The ids of the kernels to trace; []: all that use JAX.
    kernels: list[str] = []
    port: Annotated[
        Annotated[int, Meta(ge=1, le=65535)] | None,
        option(
            "Also trace programs that are not kernels, such as jobs, which called "
            "jax.profiler.start_server(PORT)."
        ),
    ] = None
    logdir: Annotated[
        str,
        Meta(max_length=4096),
        option("A folder on the hosts.", metavar="DIR", default="~/.jupyter-tpu/traces"),
    ] = ""


class Trace(Struct, kw_only=True):
    """How one program of a host was traced."""

    host: int
    kernel: str = ""  # its id; "" for a program that is not a kernel, or none at all
    notebook: str = ""
    #: "idle": nothing there uses JAX. "failed": `problem` says why, and what was kept.
    state: Literal["done", "idle", "failed"]
    problem: Problem | None = None
    #: On the host where TensorBoard runs, or if it could not be brought there, on its own.
    path: str = ""
    bytes: int = 0
    #: Seconds since 1970, by the host's clock.
    began: float = 0.0
    ended: float = 0.0


class Profile(Struct, kw_only=True):
    """A trace of a TPU: TensorBoard's folder, the name of the run in it, and each host's part."""

    tpu: str
    zone: str
    emulated: bool
    logdir: str
    run: str
    host: int  # where TensorBoard runs
    traces: list[Trace] = []

    def not_traced(self) -> list[tuple[list[int], Problem]]:
        """Why hosts have no trace, or one of their programs failed: each reason with its hosts."""
        done = {each.host for each in self.traces if each.state == "done"}
        found: dict[tuple[str, str], tuple[list[int], Problem]] = {}
        for each in self.traces:
            problem = each.problem
            if problem is not None and (each.state == "failed" or each.host not in done):
                same, _ = found.setdefault((problem.message, problem.hint), ([], problem))
                if each.host not in same:
                    same.append(each.host)
        return list(found.values())


class MemoryQuery(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which kernels' memory to show."""

    #: Numbers such as "0,2-5"; None: all.
    hosts: str | None = None
    #: The id of a kernel; None: all that use JAX.
    kernel: str | None = None


class MemoryLine(Struct, kw_only=True):
    """A line of a program, and the memory that it, and what it called, has allocated."""

    #: "In[3]:2" of a notebook, or "train.py:42".
    line: str
    function: str
    file: str
    bytes: int
    count: int  # of arrays and compiled programs
    #: What it called, the largest first. Lines of libraries are left out.
    calls: list[MemoryLine] = []


class MemoryProfile(Struct, kw_only=True):
    """What fills the memory of JAX's devices in a program (pprof, as a tree)."""

    host: int = 0
    kernel: str = ""
    notebook: str = ""
    problem: Problem | None = None  # why there is none
    #: Bytes of arrays by device, and of other things by their kind ("executable").
    devices: dict[str, int] = {}
    others: dict[str, int] = {}
    bytes: int = 0
    lines: list[MemoryLine] = []


class MemoryProfiles(Struct, kw_only=True):
    """Memory profiles of the kernels of a TPU."""

    tpu: str
    zone: str
    emulated: bool
    profiles: list[MemoryProfile]

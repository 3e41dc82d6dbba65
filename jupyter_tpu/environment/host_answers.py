"""What the programs that we run on a host may answer: the type of each function's result.

`remote_call` checks each result before anyone sees it. Text is bounded by the size of an answer.
docs/reference/security.md has this as a table.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta, Struct

from ..files.sharing import SharingHost
from ..ssh.host_values import Address, Count, HostPath, Lines, Seconds, Text, Token, Word
from .diagnosis.facts import HostFacts
from .models import FoundPython, InstalledPackage, Locked, Requested
from .verification import HoldingProcess, HostCheck, LockFile

#: "3.12" or "3.12.4"; "" for none.
Version = Annotated[str, Meta(pattern=r"\A([0-9]{1,3}(\.[0-9]{1,3}){1,2})?\Z")]

Port = Annotated[int, Meta(ge=1, le=65535)]

#: Why a function failed: a reason, a message and a hint.
HostError = tuple[Word, Text, Text]


class Said(TypedDict):
    """A line of a program's output: a log line, its progress, or how its function ended."""

    log: NotRequired[Text]
    part: NotRequired[Annotated[float, Meta(ge=0, le=1)]]
    result: NotRequired[Any]
    error: NotRequired[Any]


class Failed(TypedDict):
    error: HostError


class Nothing(TypedDict):
    """Functions that only do something."""


#: What jupyter-tpu itself has written on the host when the environment was complete.
Marker = TypedDict(
    "Marker",
    {"made of": Text, "jax": Text, "platform": Text, "devices": Count},
    total=False,
)


class Probe(Struct, frozen=True, kw_only=True):
    """What one host is and has; see ``on_host.environments.probe``."""

    free: Count
    chips: Count
    uv: HostPath
    path: HostPath
    environment: Version  # the version of its Python; "" if there is none that works
    marker: Marker
    requested: Requested  # see ``on_host.environments.packages``
    setup: dict[Word, Literal["done", "needed", "skipped"]]
    pythons: dict[Version, HostPath]
    folders: Lines  # of environments that are not ours


class UV(TypedDict):
    uv: HostPath


class Lock(TypedDict):
    lock: Text


class OnHost(Struct, frozen=True, kw_only=True):
    """The Pythons on one host; see ``on_host.environments.existing_pythons``."""

    asked: str
    pythons: list[FoundPython]


class Joined(Struct, frozen=True, kw_only=True):
    """See ``on_host.environments.pod.join_pod``."""

    reached: bool = True
    error: str = ""
    hosts: list[int] = []
    devices: int = 0


class HeldChips(Struct, frozen=True, kw_only=True):
    """A host's chips: their device files, and who holds them."""

    devices: list[str]
    holders: list[HoldingProcess]
    #: False: processes of other users and containers could not be seen.
    complete: bool
    lock: LockFile


#: "gone": it held no chip any more. "held": it still does, though it was killed. "refused": it is
#: another user's.
Outcome = Literal["ended", "killed", "gone", "held", "refused"]
#: "refused": it is another user's, and sudo asks for a password.
LockOutcome = Literal["deleted", "gone", "held", "refused"]


class Machine(Struct, frozen=True, kw_only=True):
    """What a machine that is about to be attached says of itself."""

    #: The generation of each TPU chip; "" of one that is not known. Empty: it has none.
    chips: Annotated[list[Word], Meta(max_length=1024)]
    #: Its address for other hosts; "" if it does not know one.
    address: Address


class TensorBoardServer(Struct, frozen=True, kw_only=True):
    """A TensorBoard that answers requests."""

    port: Port  # on the host
    logdir: str  # absolute
    reused: bool  # it was running before


class RayOnHost(Struct, frozen=True, kw_only=True):
    """Ray in an environment of a host; see ``on_host.ray.state``."""

    version: Token  # "": it is not installed
    free: Count  # bytes
    ports: Annotated[list[Port], Meta(min_length=2, max_length=2)]
    token: Token


class RayNode(Struct, frozen=True, kw_only=True):
    address: Address
    alive: bool
    chips: Count
    processors: Count


class RayState(Struct, frozen=True, kw_only=True):
    """A cluster, as its head says it."""

    head: Address
    port: Annotated[int, Meta(ge=0, le=65535)]
    dashboard: Annotated[int, Meta(ge=0, le=65535)]
    version: Token
    answers: bool
    nodes: Annotated[list[RayNode], Meta(max_length=10_000)]
    token: Token


class MemoryProfile(TypedDict):
    """data: in pprof's format, as base64; cells: their numbers, by the names of files. Or the
    error.
    """

    data: NotRequired[bytes]
    cells: NotRequired[dict[str, int]]
    error: NotRequired[HostError]


class Trace(TypedDict):
    """A trace that was written on a host, or why there is none."""

    path: NotRequired[HostPath]
    bytes: NotRequired[Count]
    began: NotRequired[Seconds]  # since 1970, by the host's clock
    ended: NotRequired[Seconds]
    error: NotRequired[HostError]


#: By function.
ANSWERS: dict[str, Any] = {
    "probe": Probe,
    "get_uv": UV,
    "create_venv": Nothing,
    "install_packages": Requested,
    "list_packages": list[InstalledPackage],
    "change_packages": Nothing,
    "lock_packages": Locked,
    "resolve": Lock,
    "sync_packages": Nothing,
    "apply_setup": Nothing,
    "verify": HostCheck,
    "join_pod": Joined,
    "examine": HostFacts,
    "listen": Nothing,
    "reach": list[Port],
    "write_marker": Nothing,
    "remove": Nothing,
    "found_pythons": OnHost,
    "describe_python": FoundPython,
    "install_ipykernel": Nothing,
    "check_log_folder": Nothing | None,
    "start_tensorboard": TensorBoardServer,
    "stop_tensorboard": Nothing,
    "examine_ray": RayOnHost,
    "ray_state": RayState,
    "clear_ray": Nothing,
    "examine_sharing": SharingHost,
    "change_sharing": Nothing,
    "all_holders": HeldChips,
    "end_holders": list[Outcome],
    "delete_lock_file": LockOutcome,
    "describe_machine": Machine,
    "make_folder": HostPath,
    "finish_run": HostPath,
    "trace": list[Trace],
    "profile_memory": list[MemoryProfile],
}

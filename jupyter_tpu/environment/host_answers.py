"""The programs for environments and chips on a host, and what their functions may answer."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta, Struct

from ..links.host_calls import HostProgram, Nothing, Port
from ..ssh.host_values import Address, Count, HostPath, Lines, Text, Word
from .diagnosis.facts import HostFacts
from .imports import FailedImport
from .models import FoundPython, InstalledPackage, Locked, Requested
from .verification import HoldingProcess, HostCheck, LockFile

#: "3.12" or "3.12.4"; "" for none.
Version = Annotated[str, Meta(pattern=r"\A([0-9]{1,3}(\.[0-9]{1,3}){1,2})?\Z")]

#: What jupyter-tpu itself has written on the host when the environment was complete.
Marker = TypedDict(
    "Marker",
    {"made of": Text, "jax": Text, "torch": Text, "platform": Text, "devices": Count},
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


ENVIRONMENTS = HostProgram(
    "environments.main",
    {
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
        "try_imports": list[FailedImport],
        "join_pod": Joined,
        "examine": HostFacts,
        "listen": Nothing,
        "reach": list[Port],
        "write_marker": Nothing,
        "remove": Nothing,
        "found_pythons": OnHost,
        "describe_python": FoundPython,
        "install_ipykernel": Nothing,
    },
)
CHIPS = HostProgram(
    "chips.main",
    {
        "all_holders": HeldChips,
        "end_holders": list[Outcome],
        "delete_lock_file": LockOutcome,
        "describe_machine": Machine,
    },
)

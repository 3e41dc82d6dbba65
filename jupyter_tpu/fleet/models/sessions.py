"""Sessions: the variables of kernels, where they are kept, and for how long."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...options import option
from .core import Problem

#: The longest name and place of a session, in characters.
LONGEST_NAME, LONGEST_PLACE = 200, 500
#: Seconds without a cell after which a session is saved, and days for which it is kept.
IDLE_SECONDS, KEEP_DAYS = 5.0, 30
#: Seconds for a kernel to end its cell and to be saved, before its TPU ends.
SAVE_SECONDS = 60.0

#: The place of sessions that are copied to the computer that runs Jupyter, or the command.
COMPUTER = "computer"
#: The size up to which they are, in GB.
LARGEST_GB = 2.0
#: "": the boot disk of the host. No other address, and nothing that leads out of the folder.
SessionPlace = Annotated[
    str,
    Meta(
        pattern=r"^$|^computer$|^gs://[a-z0-9][-_.a-z0-9]{1,220}[a-z0-9](/[-_=+@~0-9A-Za-z][-_.=+@~0-9A-Za-z]*)*$(?!\n)",
        max_length=LONGEST_PLACE,
        description="a bucket and a folder in it, such as gs://my-bucket/sessions; computer for "
        "the computer that runs Jupyter; none for the disk of the host",
    ),
]
#: Whether the kernels of a TPU are saved before it ends.
BeforeEnd = Annotated[
    Literal["save", "require", "skip"],
    option(
        "save: save the variables of kernels first, and continue if that fails. require: continue "
        "only if all are saved. skip: do not save them.",
        "--sessions",
        metavar="save|require|skip",
    ),
]


class SetSessions(Struct, kw_only=True, forbid_unknown_fields=True):
    """Where the variables of a TPU's kernels are saved, and when."""

    #: Otherwise they are saved only when somebody asks for it, and before the TPU ends.
    automatic: bool = True
    place: Annotated[
        SessionPlace,
        option(
            "Save in this bucket: gs://BUCKET/FOLDER. It outlives the TPU. computer: copy what is "
            "saved to this computer.",
            "--in",
            metavar="PLACE",
            default="the disk of the host, which outlives a stop",
        ),
    ] = ""
    max_gb: Annotated[
        float,
        Meta(gt=0, le=10_000),
        option("Do not copy a session to this computer that is larger.", unit="GB"),
    ] = LARGEST_GB
    seconds: Annotated[
        float,
        Meta(ge=1, le=3600),
        option("Save when no cell has run for this time.", "--idle", typed="limit"),
    ] = IDLE_SECONDS
    keep_days: Annotated[
        int,
        Meta(ge=1, le=3650),
        option("Delete a session when it was not saved for this time.", "--keep", unit="days"),
    ] = KEEP_DAYS
    #: The TPU's name, which is required where it is another person's.
    confirm_name: str = ""


class SessionSetting(Struct, frozen=True, kw_only=True):
    """What was chosen for the kernels of a TPU. New kernels have it."""

    automatic: bool = True
    #: "": the disk of the host; "computer": that, and the computer that runs Jupyter.
    place: str = ""
    #: The size of a session up to which it is copied to that computer.
    max_gb: float = LARGEST_GB
    seconds: float = IDLE_SECONDS
    keep_days: int = KEEP_DAYS

    @property
    def kernel_place(self) -> str:
        """Where kernels save: this computer gets it from the disk of their host."""
        return kernel_place(self.place)


def kernel_place(place: str) -> str:
    return "" if place == COMPUTER else place


class MissingVariable(Struct, frozen=True, kw_only=True):
    """A variable that is not in a session, and why."""

    name: str
    why: str


class InterruptedCell(Struct, frozen=True, kw_only=True):
    """The cell that was running when its kernel ended without having been asked to."""

    #: The cell's id in the notebook; "" if it is not known.
    cell: str
    kernel: str
    #: When that was noticed.
    ended: str
    #: Why its kernel ended.
    why: str = ""


class Session(Struct, kw_only=True):
    """The saved variables of a notebook's kernel."""

    #: The same for the same name in the same place.
    id: str
    name: str
    #: The TPU of the kernel that has saved it, and its type.
    tpu: str = ""
    zone: str = ""
    type: str = ""
    emulated: bool = False
    #: "": the disk of host *host*; "computer": the computer that runs Jupyter.
    place: str = ""
    host: int = 0
    #: On the disks of so many hosts: a kernel on all hosts of a pod has saved it there.
    hosts: int = 1
    #: The kernel that has saved it last, and its notebook; "" if that is not known here.
    kernel: str = ""
    notebook: str = ""
    saved: str = ""
    #: When it is deleted if it is not saved again; "": never.
    expires: str = ""
    #: Bytes of all that is stored.
    size: int = 0
    variables: int = 0
    #: At most some hundred; `missing_count` of them in all.
    missing: list[MissingVariable] = []
    missing_count: int = 0
    python: str = ""
    jax: str = ""
    #: Whether Google bills its storage. No price of storage is known here.
    billed: bool = False
    #: When a host last said that it is there.
    checked: str = ""
    #: The cell that was running when the notebook's kernel ended: it can be run again from here.
    interrupted: InterruptedCell | None = None
    #: Why it can't be restored: damaged, another person's, or of a newer version.
    problem: Problem | None = None


class SessionList(Struct, kw_only=True):
    """The sessions that kernels of a TPU can restore."""

    #: null: sessions are off for this TPU.
    setting: SessionSetting | None
    #: The last saved first.
    sessions: list[Session]
    #: Why the list may be incomplete or old: the TPU is not READY, or its place can't be read.
    problems: list[Problem] = []


class SaveSessions(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which kernels of a TPU are saved now, and how."""

    #: Their ids; all if empty.
    kernels: Annotated[list[str], Meta(max_length=256)] = []
    #: Not for several kernels.
    name: Annotated[
        Annotated[str, Meta(max_length=LONGEST_NAME)],
        option("The name of the session.", default="that of the notebook"),
    ] = ""
    #: null: that of the TPU.
    place: Annotated[
        SessionPlace | None,
        option(
            "Save in this bucket: gs://BUCKET/FOLDER. computer: copy it to this computer.",
            "--in",
            metavar="PLACE",
            default="what was chosen for the TPU, else the disk of the host",
        ),
    ] = None
    #: null: that of the TPU, else 2.
    max_gb: Annotated[
        Annotated[float, Meta(gt=0, le=10_000)] | None,
        option("Do not copy a session to this computer that is larger.", unit="GB"),
    ] = None
    overwrite: Annotated[
        bool, option("Replace a session that another kernel has saved.", "--overwrite")
    ] = False
    seconds: Annotated[
        float,
        Meta(ge=1, le=3600),
        option("Wait this long for a running cell, and for the save.", "--timeout", typed="limit"),
    ] = SAVE_SECONDS


class RestoreSession(Struct, kw_only=True, forbid_unknown_fields=True):
    """Into which kernel a session is put."""

    kernel: str
    overwrite: Annotated[bool, option("Replace variables of the same names.", "--overwrite")] = (
        False
    )
    seconds: Annotated[
        float,
        Meta(ge=1, le=3600),
        option("Wait this long for a running cell.", "--timeout", typed="limit"),
    ] = SAVE_SECONDS


class RestartKernel(Struct, kw_only=True, forbid_unknown_fields=True):
    """How a kernel is restarted with its variables. If they can't be saved, it is not restarted."""

    seconds: Annotated[float, Meta(ge=1, le=3600)] = SAVE_SECONDS


class SessionOutcome(Struct, kw_only=True):
    """What became of one kernel."""

    kernel: str
    notebook: str = ""
    host: int = 0
    #: "busy": its cell did not end in time. "failed": see `problem`. "empty": it has no variables.
    state: Literal["waiting", "saved", "restored", "busy", "failed", "empty"] = "waiting"
    #: The session, its name and its place.
    session: str = ""
    name: str = ""
    place: str = ""
    variables: int = 0
    #: Bytes of the session, and those of them that had to be written.
    size: int = 0
    new: int = 0
    missing: list[MissingVariable] = []
    missing_count: int = 0
    #: What is otherwise than it was, each in a sentence.
    notes: list[str] = []
    problem: Problem | None = None


class SessionResult(Struct, kw_only=True):
    """What an operation did with the variables of kernels."""

    kernels: list[SessionOutcome]


class Bucket(Struct, kw_only=True):
    """A bucket of the project."""

    name: str
    #: A region, such as us-west4; or several: us, nam4.
    location: str
    #: Whether it is in the region of the TPU, or no zone was given.
    near: bool = True
    #: What else it costs if it is not, in a sentence; "" otherwise.
    warning: str = ""


class BucketList(Struct, kw_only=True):
    """The buckets that can be chosen, those of the region first."""

    #: Of the TPU; "" if no zone was given.
    region: str
    buckets: list[Bucket]
    #: Why they are not known; null: they are.
    problem: Problem | None = None

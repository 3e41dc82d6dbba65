"""Home folders: what of a host's home is kept in a bucket, and comes back on the next TPU."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, Struct

from ...options import option
from .core import Problem
from .sessions import LONGEST_PLACE

#: What is kept if nothing else is chosen: settings of shells and tools, and checkpoints.
USUAL_FOLDERS = (
    ".bash_aliases",
    ".bash_profile",
    ".bashrc",
    ".config",
    ".gitconfig",
    ".inputrc",
    ".profile",
    ".tmux.conf",
    ".vimrc",
    ".zshrc",
    "checkpoints",
)
#: Gigabytes that are saved at most, and seconds without a change after which they are saved.
MOST_GB, HOME_IDLE_SECONDS = 10.0, 60.0

#: Only a bucket, which the host itself reads and writes.
HomePlace = Annotated[
    str,
    Meta(
        pattern=r"^gs://[a-z0-9][-_.a-z0-9]{1,220}[a-z0-9](/[-_=+@~0-9A-Za-z][-_.=+@~0-9A-Za-z]*)*$(?!\n)",
        max_length=LONGEST_PLACE,
        description="a bucket and a folder in it, such as gs://my-bucket/homes",
    ),
]
#: From the home folder, also as ~/PATH.
HomeFolder = Annotated[str, Meta(min_length=1, max_length=1000)]


class SetHome(Struct, kw_only=True, forbid_unknown_fields=True):
    """Which folders of a TPU's home are kept, and where."""

    place: Annotated[
        HomePlace,
        option("Keep them in this bucket: gs://BUCKET/FOLDER.", "--in", metavar="PLACE"),
    ]
    #: Folders and files. [] for the usual ones: settings of shells and tools, and ~/checkpoints.
    folders: Annotated[list[HomeFolder], Meta(max_length=100)] = []
    max_gb: Annotated[
        float,
        Meta(gt=0, le=10_000),
        option("Save at most this much: small files, then those changed last.", "--max-size",
               unit="GB"),
    ] = MOST_GB  # fmt: skip
    seconds: Annotated[
        float,
        Meta(ge=1, le=86_400),
        option("Save when no file has changed for this time.", "--idle", typed="limit"),
    ] = HOME_IDLE_SECONDS
    #: The TPU's name, which is required where it is another person's.
    confirm_name: str = ""


class HomeSetting(Struct, frozen=True, kw_only=True):
    """What was chosen for the TPUs of a name: the next one has it, too."""

    place: str
    folders: list[str]
    max_gb: float = MOST_GB
    seconds: float = HOME_IDLE_SECONDS


class NotSaved(Struct, frozen=True, kw_only=True):
    """A file or folder of the home that is not in the bucket, and why."""

    path: str
    why: str


class HomeOutcome(Struct, kw_only=True):
    """What became of one save, restore or deletion."""

    #: "same": this TPU had all of it. "empty": there is nothing in the bucket.
    state: Literal["saved", "restored", "same", "empty", "forgotten", "cancelled", "failed"]
    #: When it ended.
    at: str
    #: When what is in the bucket was saved; "" if there is nothing, or that is not known.
    saved: str = ""
    files: int = 0
    #: Bytes of all files, and those of them that had to be copied.
    size: int = 0
    new: int = 0
    #: At most a hundred; `left_out_count` in all.
    left_out: list[NotSaved] = []
    left_out_count: int = 0
    #: What a restore left as it is on the TPU, since it is newer, and what it replaced; at most a
    #: hundred each.
    kept: list[str] = []
    kept_count: int = 0
    replaced: list[str] = []
    replaced_count: int = 0
    problem: Problem | None = None


class Home(Struct, kw_only=True):
    """The home folders of the TPUs of a name: of host 0."""

    tpu: str
    #: Where the last one was that had them.
    zone: str = ""
    setting: HomeSetting
    #: Whether the TPU has them, and saves them. False: they are not restored yet, or it is gone.
    there: bool = False
    #: What is in the bucket, as last heard.
    saved: str = ""
    files: int = 0
    size: int = 0
    left_out: list[NotSaved] = []
    left_out_count: int = 0
    #: What its host does now, with the bytes that are done, and all.
    doing: Literal["", "save", "restore", "forget"] = ""
    done: int = 0
    total: int = 0
    #: The last save or restore.
    last: HomeOutcome | None = None

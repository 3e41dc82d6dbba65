"""What crosses the border of the fleet: REST bodies, CLI ``--json``, events, SQLite rows.

Each is defined here once; the OpenAPI document and the frontend's TypeScript types are made from
these classes. Times are RFC 3339 in UTC, sizes in bytes unless a name says otherwise.
"""

from ...environment import Finding, FoundPython, FoundPythons, HostSetup, InstalledPackage
from .attached import AttachMachine, DetachMachine, MachineCheck
from .catalog import Catalog
from .changes import Change
from .chips import (
    ChipHolder,
    ChipUse,
    FreeChips,
    FreedChips,
    FreedHolder,
    HolderToEnd,
    HostChips,
)
from .copies import CopyFiles, CopyResult, FileProblem, HostCopy
from .costs import Cost
from .doctor import CheckSetup, Diagnosis
from .environments import (
    ChangePackages,
    ConnectTPU,
    DisconnectTPU,
    Environment,
    EnvironmentLock,
    EnvironmentName,
    HostDifference,
    HostVersions,
    KeepWarm,
    RemoveEnvironment,
    WarmKernel,
)
from .files import Contents, CreateContents, HostFile, RenameContents, SaveContents
from .forwarding import (
    App,
    AppVisit,
    OpenApp,
    OpenTensorBoard,
    OpenTunnel,
    ProfileKernel,
    Tunnel,
    VisitApp,
)
from .grants import Grant, GrantUse
from .guard import Guard, GuardAction, KeepTPU, SetGuard
from .hunts import Hunt, HuntAttempt, HuntCandidate, StartHunt
from .jobs import (
    HostJob,
    Job,
    JobAttempt,
    JobLine,
    JobLog,
    JobLogQuery,
    StartJob,
    StopJob,
)
from .kernels import Kernel
from .metrics import ChipLoad, HostLoad, LoadQuery, LoadSample, TPULoad
from .networks import NetworkSetup, SetUpNetwork
from .operations import Operation, Step, StopTrying
from .prices import PriceList
from .problems import Problem
from .queued import DeleteQueued, QueuedResource, QueuedResources, QueueTPU
from .runs import HostRun, OutputPart, Run, RunInput, RunOutput, StartRun
from .shares import (
    HostShare,
    SharedFolder,
    SharedFolders,
    ShareFolder,
    ShareResult,
    ShareStep,
    SharingState,
)
from .status import FailingTPU, FleetStatus, LoopStatus
from .sync import (
    HostSync,
    MirroredProject,
    NotCopied,
    SyncConflict,
    SyncCounts,
    SyncProject,
    SyncResult,
)
from .tokens import PassTokens, Token
from .tpus import (
    TPU,
    Connection,
    CreateTPU,
    DeleteTPU,
    Host,
    LinkStatus,
    Quote,
    StartTPU,
    StopTPU,
    Tier,
    TPUList,
    TPUName,
)
from .usage import OwnerUsage, Usage, UsedTPU

__all__ = [
    "TPU",
    "App",
    "AppVisit",
    "AttachMachine",
    "Catalog",
    "Change",
    "ChangePackages",
    "CheckSetup",
    "ChipHolder",
    "ChipLoad",
    "ChipUse",
    "ConnectTPU",
    "Connection",
    "Contents",
    "CopyFiles",
    "CopyResult",
    "Cost",
    "CreateContents",
    "CreateTPU",
    "DeleteQueued",
    "DeleteTPU",
    "DetachMachine",
    "Diagnosis",
    "DisconnectTPU",
    "Environment",
    "EnvironmentLock",
    "EnvironmentName",
    "FailingTPU",
    "FileProblem",
    "Finding",
    "FleetStatus",
    "FoundPython",
    "FoundPythons",
    "FreeChips",
    "FreedChips",
    "FreedHolder",
    "Grant",
    "GrantUse",
    "Guard",
    "GuardAction",
    "HolderToEnd",
    "Host",
    "HostChips",
    "HostCopy",
    "HostDifference",
    "HostFile",
    "HostJob",
    "HostLoad",
    "HostRun",
    "HostSetup",
    "HostShare",
    "HostSync",
    "HostVersions",
    "Hunt",
    "HuntAttempt",
    "HuntCandidate",
    "InstalledPackage",
    "Job",
    "JobAttempt",
    "JobLine",
    "JobLog",
    "JobLogQuery",
    "KeepTPU",
    "KeepWarm",
    "Kernel",
    "LinkStatus",
    "LoadQuery",
    "LoadSample",
    "LoopStatus",
    "MachineCheck",
    "MirroredProject",
    "NetworkSetup",
    "NotCopied",
    "OpenApp",
    "OpenTensorBoard",
    "OpenTunnel",
    "Operation",
    "OutputPart",
    "OwnerUsage",
    "PassTokens",
    "PriceList",
    "Problem",
    "ProfileKernel",
    "QueueTPU",
    "QueuedResource",
    "QueuedResources",
    "Quote",
    "RemoveEnvironment",
    "RenameContents",
    "Run",
    "RunInput",
    "RunOutput",
    "SaveContents",
    "SetGuard",
    "SetUpNetwork",
    "ShareFolder",
    "ShareResult",
    "ShareStep",
    "SharedFolder",
    "SharedFolders",
    "SharingState",
    "StartHunt",
    "StartJob",
    "StartRun",
    "StartTPU",
    "Step",
    "StopJob",
    "StopTPU",
    "StopTrying",
    "SyncConflict",
    "SyncCounts",
    "SyncProject",
    "SyncResult",
    "TPUList",
    "TPULoad",
    "TPUName",
    "Tier",
    "Token",
    "Tunnel",
    "Usage",
    "UsedTPU",
    "VisitApp",
    "WarmKernel",
]

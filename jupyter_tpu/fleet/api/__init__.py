"""What the fleet offers, in this process (`Fleet`) or through a running server (`client`).

A reference (``ref``) to a TPU is its name, or ``zone~name`` (``zone/name``) where two zones have
the same one. All methods raise :class:`~jupyter_tpu.errors.TPUError`: NOT_FOUND for an unknown
reference or id, CONFLICT for an ambiguous one and for what the TPU's state or a running operation
does not allow, INVALID for a wrong request, and what Google answers.

Delete, stop, disconnect and detach shut kernels down. While kernels run they raise KERNELS_RUNNING
unless the request has ``end_kernels``. Delete, stop and detach end jobs, too: they raise
JOBS_RUNNING unless the request has ``end_jobs``.
"""

from .budgets import BudgetsAPI, PlansAPI
from .capacity import GrantsAPI, HuntsAPI, LogsAPI, NetworksAPI, PricesAPI, QueuedAPI, SSHKeyAPI
from .environments import EnvironmentsAPI
from .files import CopiesAPI, SharesAPI, SyncAPI, TokensAPI
from .fleet import FleetAPI
from .forwarding import AppsAPI, TensorBoardAPI, TunnelsAPI
from .hosts import (
    ChipKernelsAPI,
    ChipsAPI,
    DoctorAPI,
    GuardAPI,
    JobsAPI,
    KernelsAPI,
    MetricsAPI,
    PythonsAPI,
    RunsAPI,
    SliceKernelsAPI,
)
from .inventory import AttachedAPI, UsageAPI
from .operations import OperationsAPI
from .profiles import ProfilesAPI
from .ray import RayAPI

__all__ = [
    "AppsAPI",
    "AttachedAPI",
    "BudgetsAPI",
    "ChipKernelsAPI",
    "ChipsAPI",
    "CopiesAPI",
    "DoctorAPI",
    "EnvironmentsAPI",
    "FleetAPI",
    "GrantsAPI",
    "GuardAPI",
    "HuntsAPI",
    "JobsAPI",
    "KernelsAPI",
    "LogsAPI",
    "MetricsAPI",
    "NetworksAPI",
    "OperationsAPI",
    "PlansAPI",
    "PricesAPI",
    "ProfilesAPI",
    "PythonsAPI",
    "QueuedAPI",
    "RayAPI",
    "RunsAPI",
    "SSHKeyAPI",
    "SharesAPI",
    "SliceKernelsAPI",
    "SyncAPI",
    "TensorBoardAPI",
    "TokensAPI",
    "TunnelsAPI",
    "UsageAPI",
]

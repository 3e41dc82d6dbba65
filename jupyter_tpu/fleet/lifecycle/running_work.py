"""What runs on a TPU and would end with it: kernels and jobs."""

from __future__ import annotations

from ...cloud import NodeName
from ...errors import TPUError
from ..core.operation_progress import OperationProgress
from ..jobs.jobs import JobService
from ..kernels.kernels import KernelService


class RunningWork:
    """Asks before it ends, and ends what may end."""

    def __init__(self, kernels: KernelService, jobs: JobService) -> None:
        self.kernels = kernels
        self.jobs = jobs

    async def require_confirmation(
        self, name: NodeName, act: str, *, end_kernels: bool, end_jobs: bool
    ) -> None:
        """Raises KERNELS_RUNNING or JOBS_RUNNING if such run there, and may not be ended.

        act: what would end them: "Stopping".
        """
        await self.kernels.require_confirmation(name, end_kernels, act)
        await self.jobs.require_confirmation(name, end_jobs, act)

    async def shut_down_kernels(
        self, name: NodeName, why: TPUError, progress: OperationProgress
    ) -> None:
        """The first step of what ends the kernels of a TPU. *why*: see ``shut_down_all``."""
        progress.begin("kernels")
        count = await self.kernels.shut_down_all(name, why, progress.log)
        progress.done("kernels", "done" if count else "skipped")

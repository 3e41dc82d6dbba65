"""`RayClusters`: the Ray cluster of each TPU."""

from __future__ import annotations

from ..core.core import Core
from ..environments.subject import Environments
from ..forwarding.subject import Forwarding
from ..jobs.subject import Jobs
from .service import RayService


class RayClusters:
    def __init__(
        self, core: Core, forwarding: Forwarding, environments: Environments, jobs: Jobs
    ) -> None:
        self.service = RayService(core, forwarding.apps, environments.service, jobs.service)

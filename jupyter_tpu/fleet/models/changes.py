"""What events carry."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .forwarding import App, Tunnel
from .hunts import Hunt
from .jobs import Job
from .kernels import Kernel
from .operations import Operation
from .runs import Run
from .tpus import TPU


class Change(Struct, kw_only=True):
    """An event: the new state of one thing, or that it is gone."""

    what: Literal["tpu", "operation", "kernel", "tunnel", "app", "run", "job", "hunt"]
    id: str  # zone/name of a TPU, id of an operation, kernel, tunnel, app, run, job or hunt
    gone: bool = False
    tpu: TPU | None = None
    operation: Operation | None = None
    kernel: Kernel | None = None
    tunnel: Tunnel | None = None
    app: App | None = None
    run: Run | None = None
    job: Job | None = None
    hunt: Hunt | None = None

"""What events carry."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .budgets import BudgetOverview
from .core import Operation, PriceList
from .environments import Kernel
from .forwarding import App, Tunnel
from .hunts import Hunt
from .jobs import Job, Run
from .money import Grant
from .sessions import Session
from .tpus import TPU, QueuedResource

What = Literal[
    "tpu",
    "operation",
    "kernel",
    "tunnel",
    "app",
    "run",
    "job",
    "hunt",
    "grant",
    "queued",
    "prices",
    "budgets",
    "session",
]


class Change(Struct, kw_only=True):
    """An event: the new state of one thing, or that it is gone."""

    what: What
    #: zone/name of a TPU or queued resource, name of a grant, "prices", "budgets", id of all
    #: others.
    id: str
    gone: bool = False
    tpu: TPU | None = None
    operation: Operation | None = None
    kernel: Kernel | None = None
    tunnel: Tunnel | None = None
    app: App | None = None
    run: Run | None = None
    job: Job | None = None
    hunt: Hunt | None = None
    grant: Grant | None = None
    queued: QueuedResource | None = None
    prices: PriceList | None = None
    budgets: BudgetOverview | None = None
    session: Session | None = None

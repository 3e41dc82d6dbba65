"""Ray on the hosts of a TPU."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Struct

from ...options import option
from .core import Problem
from .jobs import Text


class StartRay(Struct, kw_only=True, forbid_unknown_fields=True):
    """A Ray cluster to start on all hosts of a TPU."""

    environment: Annotated[Text, option("The environment with Ray.", "--env", metavar="ENV")] = (
        "default"
    )
    install: Annotated[
        bool, option("Install Ray in the environment, on all hosts, if it is missing there.")
    ] = False


class RayHost(Struct, kw_only=True):
    """One host of a TPU as a node of its Ray cluster."""

    host: int
    address: str
    #: "missing": it has not joined, or has left.
    state: Literal["alive", "missing"]
    chips: int = 0  # that Ray may give to tasks
    processors: int = 0


class Ray(Struct, kw_only=True):
    """The Ray cluster of a TPU."""

    tpu: str
    zone: str
    #: "failed": it ended by itself; `problem` says how. "unknown": host 0 can't be asked.
    state: Literal["stopped", "starting", "running", "stopping", "failed", "unknown"]
    #: The id of the job that runs it, or did last; "" if there was none.
    job: str = ""
    environment: str = ""
    version: str = ""
    #: On the pod's network; `ray.init()` in a kernel of this TPU finds it without.
    address: str = ""
    #: Of its dashboard on host 0, on the loopback address; 0 if it is not known.
    dashboard_port: int = 0
    hosts: list[RayHost] = []
    problem: Problem | None = None

"""What a new TPU is given at its creation, so that it starts its work without a server."""

from __future__ import annotations

import asyncio
import time

from msgspec import structs

from ...cloud import Cloud, NodeName
from ...environment import GuardRules, UnattendedStart, startup_script
from ...errors import InvalidInput
from ...ssh.keys import user_name
from ..core.locks import Locks
from ..environments.environment import earlier_lock, environment_spec, locked_request
from ..jobs.guard import guard_rule, silent_rule
from ..models import ConnectTPU, Cost, CreateTPU
from ..models.catalog import known_type
from .defaults import EnvironmentDefaults
from .node_options import STARTUP_SCRIPT


class UnattendedStarts:
    def __init__(self, cloud: Cloud, locks: Locks, defaults: EnvironmentDefaults) -> None:
        self._cloud = cloud
        self._locks = locks
        self._defaults = defaults

    async def script(self, request: CreateTPU, name: NodeName, job: str, cost: Cost) -> str:
        """The startup script that does what connecting would do, and starts the job *job*.

        cost: what the TPU will cost an hour. Raises INVALID for one that is too long.
        """
        assert request.connect is not None
        connect = structs.replace(request.connect, then_run="")
        lock = await earlier_lock(self._locks, connect, emulated=self._cloud.emulated)
        if lock is not None:
            connect = locked_request(connect, lock)
        connect = self._defaults.added_to(connect)
        unattended_start = UnattendedStart(
            user=user_name(),
            job=job,
            command=request.connect.then_run,
            environment=environment_spec(connect),
            emulated=self._cloud.emulated,
            python_path=connect.python_path or "",
            guard=self._guard(request, name, cost),
        )
        return await asyncio.to_thread(startup_script, unattended_start)

    async def guard_script(self, request: CreateTPU, name: NodeName, cost: Cost) -> str:
        """The startup script that sets the guard, if no one connects to the TPU."""
        start = UnattendedStart(
            user=user_name(),
            job="guard",
            command="",
            environment=environment_spec(ConnectTPU()),
            emulated=self._cloud.emulated,
            guard=self._guard(request, name, cost),
        )
        return await asyncio.to_thread(startup_script, start)

    def _guard(self, request: CreateTPU, name: NodeName, cost: Cost) -> GuardRules | None:
        """The rules of its guard, before anything is known of the TPU."""
        if request.guard is None:
            return None
        now, accelerator = time.time(), known_type(request.type)
        rule = guard_rule(
            request.guard,
            name,
            structs.replace(cost, usd=0.0),
            now,
            node_id="",
            hosts=accelerator.hosts if accelerator is not None else 1,
            tier=request.tier,
            api=request.api or "tpu",
        )
        end = rule.pop("cost_until")
        rule["cost_seconds"] = None if end is None else end - now
        others = silent_rule(rule) if "hosts" in rule else None
        return GuardRules(first=rule, others=others)


def has_job(request: CreateTPU) -> bool:
    """Whether there is something for it to begin with."""
    return request.connect is not None and bool(request.connect.then_run)


def has_startup_script(request: CreateTPU) -> bool:
    """Whether it has one of its own."""
    options = request.options
    return bool(options.startup_script) or STARTUP_SCRIPT in options.metadata


def require_no_startup_script(request: CreateTPU) -> None:
    """Raises INVALID where it has one already, and needs ours."""
    if has_startup_script(request) and has_job(request):
        raise InvalidInput(
            "A TPU that runs a command while this computer is off has a startup script already.",
            "Move its commands to the setup script of the environment.",
            field="startup_script",
        )

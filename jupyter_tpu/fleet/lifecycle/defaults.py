"""What each new environment gets, and what a new TPU needs to begin without a server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, structs

from ...cloud import NodeName
from ...environment import GuardRules, HostSetup, UnattendedStart, startup_script
from ...errors import InvalidInput
from ...local_files import read_text
from ...ssh.keys import user_name
from ..core.checks import check_environment
from ..core.core import Core
from ..environments.environment import add_request, earlier_lock, locked_request
from ..jobs.guard import guard_rule, silent_rule
from ..models import ConnectTPU, Cost, CreateTPU
from ..models.core import known_type, validated
from .node_options import STARTUP_SCRIPT


class EnvironmentDefaults(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """As `ConnectTPU` and `HostSetup`; *setup_script* is a file of this computer, "" for none."""

    python: str | None = None
    packages: list[str] = []
    apt: list[str] = []
    timezone: str = ""
    oh_my_zsh: bool = False
    setup_script: str = ""

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> EnvironmentDefaults:
        """Raises INVALID for other keys and types."""
        try:
            return msgspec.convert(values, cls)
        except msgspec.ValidationError as error:
            raise InvalidInput(f"The defaults of environments are wrong: {error}.") from None

    def check(self) -> None:
        """Raises INVALID for what no environment can have, or if the script can't be read."""
        self.added_to(ConnectTPU())

    def added_to(self, request: ConnectTPU) -> ConnectTPU:
        """The request for a new environment with these. One with a lock keeps its versions, and a
        Python that is on the hosts is used as it is.

        Raises INVALID, also where the script can't be read.
        """
        if request.python_path is not None or self == EnvironmentDefaults():
            return request
        plain = (
            ConnectTPU() if request.lock else ConnectTPU(python=self.python, packages=self.packages)
        )
        setup = HostSetup(
            apt=self.apt,
            timezone=self.timezone,
            oh_my_zsh=self.oh_my_zsh,
            script=self._script() if self.setup_script else "",
        )
        added = validated(add_request(msgspec.structs.replace(plain, setup=setup), request))
        check_environment(added)
        return added

    def _script(self) -> str:
        path = Path(self.setup_script).expanduser()
        try:
            return read_text(path)
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not a text file"
            raise InvalidInput(
                f"The setup script {path} can't be read: {why}.",
                "Correct setup_script in c.JupyterTPU.environment_defaults.",
            ) from None


class UnattendedStarts:
    def __init__(self, core: Core, defaults: EnvironmentDefaults) -> None:
        self._cloud = core.cloud
        self._locks = core.locks
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
            environment=connect,
            emulated=self._cloud.emulated,
            python_path=connect.python_path or "",
            guard=self._guard(request, name, cost),
        )
        return await asyncio.to_thread(startup_script, unattended_start)

    async def guard_script(self, request: CreateTPU, name: NodeName, cost: Cost) -> str:
        """The startup script that sets the guard, if no one connects to the TPU. One that was asked
        for runs beside it.
        """
        start = UnattendedStart(
            user=user_name(),
            job="guard",
            command="",
            environment=ConnectTPU(),
            emulated=self._cloud.emulated,
            guard=self._guard(request, name, cost),
            own=requested_startup_script(request),
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


def requested_startup_script(request: CreateTPU) -> str:
    """Its own one; "" if it has none."""
    options = request.options
    return options.startup_script or options.metadata.get(STARTUP_SCRIPT, "")


def require_no_startup_script(request: CreateTPU) -> None:
    """Raises INVALID where it has one already, and needs ours."""
    if requested_startup_script(request) and has_job(request):
        raise InvalidInput(
            "A TPU that runs a command while this computer is off has a startup script already.",
            "Move its commands to the setup script of the environment.",
            field="startup_script",
        )

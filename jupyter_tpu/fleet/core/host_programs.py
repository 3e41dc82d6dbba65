"""What programs on hosts need that use buckets: a Python with the libraries, and a key."""

from __future__ import annotations

import asyncio

from ...cloud import NodeName
from ...session_key import VARIABLE, session_variables
from .core import Core


def ready_pythons(core: Core, name: NodeName) -> list[str]:
    """The Pythons of the environments of a TPU, on its hosts, the best first."""
    records = core.desired.environments(name).values()
    ready = [record for record in records if record.environment.state == "ready"]
    ready.sort(key=lambda record: (record.is_existing, record.environment.name != "default"))
    return [record.host_python for record in ready]


async def signing_key(core: Core, name: NodeName) -> str:
    """That by which kernels there sign; "": the host's own, where a coding agent rules."""
    if core.connected.is_of_agent(name):
        return ""
    variables = await asyncio.to_thread(session_variables, agents=False)
    return variables.get(VARIABLE, "")

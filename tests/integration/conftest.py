"""Fixtures of several files: a cloud with servers of one data folder, a TPU's name there, a shell,
and a server with a person's and an agent's token."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from agent_client import Client
from cli_shell import Shell
from fault_proxy import FaultProxy
from fleet_world import World
from local_host import LocalHost, host_of_its_own
from stormy_host import line_to

from jupyter_tpu.agent_token import agent_token


@pytest_asyncio.fixture
async def world(
    emulator: Any, faults: Any, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[World]:
    """A `World`, or what the file's `WORLD` names."""
    async with getattr(request.module, "WORLD", World)(emulator, tmp_path) as world:
        yield world


@pytest.fixture
def name(world: World) -> Iterator[str]:
    """A name for a TPU; nothing has it after the test."""
    with world.new_name() as name:
        yield name


@pytest.fixture(scope="module")
def line(emulator: Any, pod: str) -> Iterator[FaultProxy]:
    """The line between this machine and host 0 of the file's `pod`."""
    with line_to(emulator, pod) as line:
        yield line


@pytest.fixture
def shell(emulator: Any, tmp_path: Path) -> Shell:
    """``jupyter tpu`` of a user on whose machine no server runs."""
    return Shell(tmp_path, **emulator.environment)


@pytest_asyncio.fixture
async def host() -> AsyncIterator[LocalHost]:
    async with host_of_its_own() as host:
        yield host


@pytest.fixture
def budgets_server(emulator: Any, own_data: Path) -> dict[str, Any]:
    """The configuration of a Jupyter server, for `jp_server_config`. No test knows another one's
    budgets."""
    return {
        "ServerApp": {"jpserver_extensions": {"jupyter_tpu": True}},
        "JupyterTPU": {"emulator": str(emulator.state_file)},
    }


@pytest.fixture
def person(jp_fetch: Callable[..., Any], jp_serverapp: Any) -> Client:
    return Client(jp_fetch, None)


@pytest.fixture
def agent(jp_fetch: Callable[..., Any], jp_serverapp: Any) -> Client:
    return Client(jp_fetch, agent_token())


@pytest.fixture
def new_name(name: str) -> Callable[[], str]:
    """``new_name()``: names of TPUs, which are gone after the test."""
    numbers = itertools.count()
    return lambda: f"{name}-{next(numbers)}"
